// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What has a header of its own: the type of the functions that stand in its place without it, and whether it was
// included.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI::detail::core::own_header {

/// Any argument converts to it, as the last resort: what takes one is called where nothing else fits.
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

// Constraints of class templates; the header makes its own true.
template <class>
inline constexpr bool includes_kolo_train_hpp = false;
template <class>
inline constexpr bool includes_kolo_checked_hpp = false;
template <class>
inline constexpr bool includes_kolo_composite_hpp = false;

}  // namespace kolo::inline KOLO_ABI::detail::core::own_header
