// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in virtual time: in the clock of schedules, in the clock of programs, and in the proof by one rank for all.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/verify.hpp>
#include <kolo/simulate/run.hpp>
#include <kolo/simulate/simulated.hpp>

#include <vector>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

bool is_near(double a, double b) { return a > b * (1 - 1e-9) && a < b * (1 + 1e-9); }

/// Ranks 0 and 1 send to the next rank, rank 2 to the previous one, although it says `relative`.
struct not_relative {
  static constexpr auto collective = kind::barrier;
  static constexpr bool relative = true;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 2; }
  static constexpr step at(int r, int p, int k) {
    const int d = (r + k) % 2 == 0 ? 1 : -1;
    return transfer{.to = mod(r + d, p), .send = {0, 1}, .from = mod(r + d, p), .receive = {0, 1}};
  }
};

/// Two nodes of two ranks: each rank exchanges with one of the other node.
struct across {
  static constexpr auto collective = kind::barrier;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int r, int p, int) {
    return transfer{.to = mod(r + 2, p), .send = {0, 1}, .from = mod(r + 2, p), .receive = {0, 1}};
  }
};

/// The ring, whose steps are asked of every rank.
struct asked : ring::allreduce {
  static constexpr bool relative = false;
};

}  // namespace

int main() {
  constexpr simulate::network plain{3e-6, 1e-6, 2e-6, 1e-9, 4e-10}, cards{3e-6, 1e-6, 0, 1e-9, 0, 2, {}, 1};
  expect(is_near(simulate::run(ring::allreduce{}, 5, 5000, plain), 8 * (5e-6 + 1e-6) + 4 * 4e-7),
         "the formula of the ring");
  expect(is_near(simulate::run(dissemination::barrier{}, 7, 0, plain), 3 * 5e-6), "the formula of the barrier");
  constexpr simulate::network noisy{.noise = 0.1};
  expect(simulate::run(ring::allreduce{}, 5, 5000, noisy) == simulate::run(asked{}, 5, 5000, noisy),
         "the steps of rank 0, moved");
  expect(is_near(simulate::run(across{}, 4, 1000, cards), 5e-6 + 1e-6 + 1e-6), "two messages through one card");
  expect(verify(not_relative{}, 4).what == fault::not_relative, "a schedule that is not relative");

  const auto t = virtual_time::run(5, plain, [](auto& comm) {
    std::vector<unsigned char> x(5000, 1);
    allreduce(comm, x, sum, ring{});
    expect(x[4999] == 5, "a sum");
  });
  expect(t.seconds == simulate::run(ring::allreduce{}, 5, 5000, plain), "a program takes its schedule's time");
  double heard = 0;
  try {
    virtual_time::run(3, plain, [&](auto& comm) {
      if (comm.rank() == 2) throw error{errc::system, "no disk"};
      if (comm.rank() == 0) comm.transport().compute(1);
      std::vector<int> x(3);
      try {
        allreduce(comm, x, sum, ring{});  // rank 1 waits for rank 0, which computes
      } catch (const error& e) {
        expect(e.code() == errc::peer_failed && e.peer() == 2, "the others get the failing rank");
        if (comm.rank() == 1) heard = comm.transport().now();
      }
    });
    expect(false, "an exception of a rank is rethrown");
  } catch (const error& e) {
    expect(e.code() == errc::system, "the cause is thrown");
  }
  expect(heard < 0.5, "the others get the failure at once");
  return good ? 0 : 1;
}
