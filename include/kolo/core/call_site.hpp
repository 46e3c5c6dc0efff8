// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The place of a call in the program's source.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI {

/// As a default argument, `call_site::here()` is the place of the call: two constants. (By built-ins: not every
/// compiler that takes these headers has std::source_location.)
struct call_site {
  const char* file;
  int line;

  static constexpr call_site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return call_site{file, line};
  }
};

}  // namespace kolo::inline KOLO_ABI
