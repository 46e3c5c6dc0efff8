// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call ended, as a string.
#pragma once

#include <kolo/core/error.hpp>

#include <string>

#include "support/callable_ref.hpp"

namespace testing {

/// "fine", or the error's code and the rank that it names.
inline std::string end_of(callable_ref<> call) {
  try {
    call();
    return "fine";
  } catch (const kolo::error& e) {
    return std::string{kolo::name(e.code())} + ' ' + std::to_string(e.peer());
  }
}
/// The error's message; empty if there is none.
inline std::string words_of(callable_ref<> call) {
  try {
    call();
    return "";
  } catch (const kolo::error& e) {
    return e.what();
  }
}

}  // namespace testing
