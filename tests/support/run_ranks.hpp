// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads that make their communicators themselves.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/launch/rethrow_cause.hpp>

#include <exception>
#include <latch>
#include <thread>
#include <vector>

#include "support/callable_ref.hpp"

namespace testing {

/// Runs f(rank) on `ranks` threads; rethrows the cause of their failure.
inline void run_ranks(int ranks, callable_ref<int> f) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.emplace_back([&, rank] {
        try {
          f(rank);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  kolo::detail::launch::rethrow_cause(thrown);
}

/// Runs f(comm), where make(rank) makes comm. f begins when all ranks have made theirs: a rank that is ahead may leave, or fail.
template <class Make, class F>
void run_when_all_have_come(int ranks, Make make, F f) {
  std::latch made{ranks};
  run_ranks(ranks, [&](int rank) {
    auto comm = kolo::detail::core::with_rollback([&] { return make(rank); }, [&] { made.count_down(); });
    made.arrive_and_wait();
    f(comm);
  });
}

}  // namespace testing
