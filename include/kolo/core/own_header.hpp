// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Placeholders for features with a header of their own: the argument type of their functions before that header is
// included, and whether it was.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI::detail::core::own_header {

/// Any argument converts to it, as the last resort: a function that takes one is called if no other fits.
struct train {
  template <class X>
  train(const X&) {  // NOLINT: anything
    static_assert(sizeof(X) == 0, "kolo: include <kolo/train.hpp>; where it is included, it takes no such arguments");
  }
};
struct simulate {
  template <class X>
  simulate(const X&) {  // NOLINT: anything
    static_assert(sizeof(X) == 0,
                  "kolo: include <kolo/simulate.hpp>; where it is included, it takes no such arguments");
  }
};
struct explain {
  template <class X>
  explain(const X&) {  // NOLINT: anything
    static_assert(sizeof(X) == 0, "kolo: include <kolo/explain.hpp>; where it is included, it takes no such arguments");
  }
};
struct fit {
  template <class X>
  fit(const X&) {  // NOLINT: anything
    static_assert(sizeof(X) == 0, "kolo: include <kolo/fit.hpp>; where it is included, it takes no such arguments");
  }
};
struct dump {
  template <class X>
  dump(const X&) {  // NOLINT: anything
    static_assert(sizeof(X) == 0, "kolo: include <kolo/dump.hpp>; where it is included, it takes no such arguments");
  }
};

// Constraints of class templates; the feature's header makes its own true.
template <class>
inline constexpr bool includes_kolo_train_hpp = false;
template <class>
inline constexpr bool includes_kolo_checked_hpp = false;
template <class>
inline constexpr bool includes_kolo_composite_hpp = false;

/// Used by a deduction guide that replaces those of train.hpp. (Clang checks this before the guide's constraint.)
template <class X>
struct train_is_needed {
  static_assert(includes_kolo_train_hpp<X>, "kolo: include <kolo/train.hpp>");
  using here = X;
};

}  // namespace kolo::inline KOLO_ABI::detail::core::own_header
