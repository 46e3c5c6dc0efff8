// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operator that does not commute, on a type of your own: rotations are composed in rank order.
#include "expect.hpp"

#include <kolo/kolo.hpp>

#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

// clang-format off
struct quaternion { float w, x, y, z; };
struct compose {                                                // associative, not commutative
  static constexpr bool commutative = false;
  constexpr quaternion operator()(quaternion a, quaternion b) const {
    return {a.w*b.w - a.x*b.x - a.y*b.y - a.z*b.z, a.w*b.x + a.x*b.w + a.y*b.z - a.z*b.y,
            a.w*b.y - a.x*b.z + a.y*b.w + a.z*b.x, a.w*b.z + a.x*b.y - a.y*b.x + a.z*b.w};
  }
};
// clang-format on

/// The rotation of rank r: about the x, y or z axis, by an angle that depends on r.
quaternion turn(int rank) {
  const float half = 0.2f * float(rank + 1), s = std::sin(half);
  return {std::cos(half), rank % 3 == 0 ? s : 0, rank % 3 == 1 ? s : 0, rank % 3 == 2 ? s : 0};
}

bool close(quaternion a, quaternion b) {
  return std::abs(a.w - b.w) + std::abs(a.x - b.x) + std::abs(a.y - b.y) + std::abs(a.z - b.z) < 1e-5f;
}

int main() {
  const int status = kolo::shm::launch(4, [](auto& comm) {
    std::vector<quaternion> q(100, turn(comm.rank()));
    // clang-format off
kolo::allreduce(comm, std::span<quaternion>{q}, compose{});     // same on every rank, in rank order
    // clang-format on

    quaternion expected = turn(0), backwards = turn(comm.size() - 1);
    for (int r = 1; r < comm.size(); ++r) expected = compose{}(expected, turn(r));
    for (int r = comm.size() - 2; r >= 0; --r) backwards = compose{}(backwards, turn(r));
    for (const quaternion& each : q) expect(close(each, expected), "the rotations are composed in the order of the ranks");
    expect(!close(expected, backwards), "here the order matters");
    if (comm.rank() == 0) std::printf("Four rotations make one: %.4f %+.4fi %+.4fj %+.4fk.\n", q[0].w, q[0].x, q[0].y, q[0].z);
  });
  return status;
}
