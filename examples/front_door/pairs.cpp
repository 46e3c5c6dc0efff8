// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Point-to-point operations: blocking, nonblocking, and as a plan that runs repeatedly.
#include "expect.hpp"

#include <kolo/kolo.hpp>
#include <kolo/point_to_point.hpp>

#include <cstdio>
#include <vector>

using numbers = std::vector<double>;

int main() {
  const int status = kolo::shm::launch(4, [](auto& comm) {
    const int r = comm.rank(), p = comm.size(), partner = r ^ 1;
    const numbers mine(100, r);
    numbers x(100), y(100), z(100);
    if (r == 0) kolo::send(comm, mine, 3);  // called by these two ranks only
    if (r == 3) kolo::receive(comm, x, 0);
    expect(r != 3 || x == numbers(100, 0), "rank 3 has what rank 0 sent");

    kolo::exchange(comm, mine, x, partner);  // send and receive at once
    kolo::shift(comm, mine, y, 1);           // every rank sends to the next one
    kolo::permute(comm, mine, z, [](int rank, int size) { return size - 1 - rank; });
    expect(x[0] == partner && y[0] == (r + p - 1) % p && z[0] == p - 1 - r, "each rank has another rank's values");

    auto arrives = kolo::start_receive(comm, x, (r + p - 1) % p, 7);  // 7: a tag, which must match
    auto leaves = kolo::start_send(comm, mine, (r + 1) % p, 7);
    arrives.wait(), leaves.wait();
    expect(x == y, "start_send and start_receive give the result of shift");
    kolo::start_exchange(comm, mine, x, partner).wait();
    kolo::start_shift(comm, mine, y, -1).wait();
    kolo::start_permute(comm, mine, z, kolo::permuted{[](int rank, int size) { return (rank + 2) % size; }}).wait();
    expect(x[0] == partner && y[0] == (r + 1) % p && z[0] == (r + 2) % p, "started calls give the results of blocking calls");

    auto there = kolo::plan_exchange(comm, mine, x, partner);
    auto around = kolo::plan_shift(comm, mine, y, 2);
    auto back = kolo::plan_permute(comm, mine, z, kolo::shifted_by{.distance = 3});
    for (int i = 0; i < 3; ++i) there.run(), around.run(), back.run();
    expect(y == numbers(100, (r + 2) % p) && z == numbers(100, (r + 1) % p), "so do plans");
    if (r < 2) {
      auto send = kolo::plan_send(comm, mine, r + 2);
      for (int i = 0; i < 3; ++i) send.run();
    } else {
      auto receive = kolo::plan_receive(comm, x, r - 2);
      for (int i = 0; i < 3; ++i) receive.run();
      expect(x == numbers(100, r - 2), "so do plans of send and receive");
    }
  });
  if (status == 0) std::puts("All messages arrived.");
  return status;
}
