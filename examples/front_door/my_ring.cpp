// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An algorithm of your own: defined once, then proven, run and simulated.
//
// It is a pure function from rank, size and round to the transfers of that rank. The compiler executes it symbolically for
// up to 16 ranks; if an index is wrong, the error names rank, round and block.
#include "expect.hpp"

#include <kolo/kolo.hpp>
#include <kolo/simulate.hpp>

#include <cstddef>
#include <cstdio>
#include <vector>

// clang-format off
#include <kolo/schedule/verify.hpp>
struct my_ring {                                                // pure: rank, size, round -> transfers
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr kolo::step at(int r, int p, int k) {
    using kolo::mod, kolo::arrival;
    return kolo::transfer{.to = mod(r + 1, p), .send = {mod(r - k, p), 1},
                          .from = mod(r - 1, p), .receive = {mod(r - k - 1, p), 1},
                          .then = k < p - 1 ? arrival::theirs_first : arrival::replace};
  }
};
static_assert(kolo::is_allreduce<my_ring, 2, 16>);              // every size from 2 to 16; a failure names size, rank, round, block
// clang-format on

/// The same with a mistake: received blocks are combined in the second half, too.
struct my_mistake : my_ring {
  static constexpr kolo::step at(int r, int p, int k) {
    kolo::step now;
    for (kolo::transfer t : my_ring::at(r, p, k)) t.then = kolo::arrival::theirs_first, now += t;
    return now;
  }
};

void prove() {
  // clang-format off
auto verdict = kolo::verify(my_ring{}, 257);                    // at run time; converts to bool, prints the first fault
  // clang-format on
  expect(bool(verdict), "the ring is proven for 257 ranks");
  const auto wrong = kolo::verify(my_mistake{}, 5);
  expect(!wrong, "a mistake is found");
  std::printf("my_ring is proven; with a mistake in it: %s.\n", wrong.message().c_str());
}

void run(auto& comm) {
  std::vector<float> x(10'000, float(comm.rank()));
  // clang-format off
kolo::allreduce(comm, x, kolo::sum, my_ring{});
  // clang-format on
  for (float value : x) expect(value == 6, "the sum over four ranks is 0 + 1 + 2 + 3");
}

void simulate() {
  const std::size_t bytes = 100 << 20;
  const kolo::simulate::network network;
  // clang-format off
auto seconds = kolo::simulate::run(my_ring{}, 4096, bytes, network);   // no second implementation
  // clang-format on
  const double least = 2 * 4095 * (network.alpha() + double(bytes) / 4096 * network.seconds_per_byte);
  expect(seconds > least && seconds < 2 * least, "a ring takes 2 (p-1) messages of n/p bytes one after another");
  std::printf("4096 ranks would sum 100 MiB with it in %.0f ms.\n", 1000 * seconds);
}

int main() {
  prove();
  const int status = kolo::shm::launch(4, [](auto& comm) { run(comm); });
  simulate();
  return status;
}
