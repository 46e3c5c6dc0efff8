// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// barrier: no rank continues before all have come.
#pragma once

#include <kolo/collective/entry.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

struct barrier {
  static constexpr auto K = kind::barrier;

  static auto make(auto& comm, AnyAlgorithm auto& algorithm) {
    return make_call<K>(execute::none{}, execute::none{}, execute::none{}, algorithm, [&](auto& c) {
      complete<K, std::byte>(comm, c, 1, 1);
      c.args.in = c.args.out = {.base = execute::token_of(*comm.engine(), &c.token), .count = 1, .element_bytes = 1};
    });
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0, "kolo::barrier takes (comm), then an algorithm, then options");
    return {};
  }
};

}  // namespace detail::collective

/// barrier(comm [, algorithm] [, options])
///
/// After   every rank has called it. A rank's writes before it are visible to all ranks after it.
/// Cost    that of the algorithm; dissemination: ceil(log2 p) rounds, no bytes of the user's.
/// Errors  kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::barrier> barrier{};
inline constexpr detail::collective::started<detail::collective::barrier> start_barrier{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::barrier> plan_barrier{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI
