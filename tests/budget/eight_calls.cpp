// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Eight calls with five types and five operators, one of them the program's own.
#include <cstdint>
#include <kolo/kolo.hpp>
#include <vector>

struct vec3 {
  float x, y, z;
};
struct longest {
  vec3 operator()(const vec3& a, const vec3& b) const {
    return a.x * a.x + a.y * a.y + a.z * a.z < b.x * b.x + b.y * b.y + b.z * b.z ? b : a;
  }
};

int main() {
  return kolo::shm::launch(4, [](auto& comm) {
    std::vector<float> gradient(1'000'000, float(comm.rank())), part(10, 1.0f), all(40), mine(250'000);
    std::vector<double> loss(1, 0.5);
    std::vector<std::int64_t> seen(1, 100);
    std::vector<std::uint8_t> flags(64, 1);
    std::vector<vec3> extremes(16, vec3{1, 2, 3});
    kolo::allreduce(comm, gradient, kolo::average);
    kolo::allreduce(comm, loss, kolo::sum);
    kolo::allreduce(comm, seen, kolo::max);
    kolo::allreduce(comm, flags, kolo::bit_or);
    kolo::allreduce(comm, extremes, longest{});
    kolo::broadcast(comm, gradient, 0);
    kolo::allgather(comm, part, all);
    kolo::reduce_scatter(comm, gradient, mine, kolo::sum);
  });
}
