// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule of a kind without its type: the code of a call is compiled once for all algorithms.
#pragma once

#include <kolo/kolo.hpp>

#include <memory>
#include "support/sanitized.hpp"

namespace testing {

/// Owns a schedule for p ranks, and a reference to it. A call gets the same as from the schedule itself, its caches included.
template <kolo::kind K, bool Ordered>
struct any_schedule {
  static constexpr auto collective = K;
  static constexpr bool ordered = Ordered;

  any_schedule() = default;
  template <class S>
  any_schedule(const S& s, int p)
      : kept{static_cast<const void*>(new S(s)), +[](const void* one) { delete static_cast<const S*>(one); }},
        ref{kolo::detail::execute::erase_schedule(*static_cast<const S*>(kept.get()), p)} {}
  int blocks(int) const { return ref.blocks; }
  int rounds(int) const { return ref.rounds; }
  int scratch(int) const { return ref.scratch; }
  int reduce_rounds(int) const { return ref.reduce_rounds; }
  kolo::step at(int r, int p, int k) const { return ref.at(ref.self, r, p, k); }
  friend kolo::detail::execute::schedule_ref erase_schedule(const any_schedule& s, int) { return s.ref; }

  std::shared_ptr<const void> kept{};
  kolo::detail::execute::schedule_ref ref{};
};

template <class S>
any_schedule(const S&, int) -> any_schedule<S::collective, kolo::is_ordered<S>()>;

template <class C>
inline constexpr bool is_of_threads = std::is_same_v<C, kolo::threads::communicator>;

/// Calls f(algorithm). Over threads and without a sanitizer, the algorithm has its own type; else its schedule's type is erased: over other transports the
/// calls differ only in the transport.
template <kolo::kind K, class C, class A, class F>
void with_algorithm(C& comm, const A& algorithm, F f) {
  if constexpr ((is_of_threads<C> && !is_sanitized) || kolo::detail::schedule::Automatic<A>) {
    f(algorithm);
  } else {
    f(any_schedule{kolo::schedule_of<K>(algorithm), comm.size()});
  }
}

}  // namespace testing
