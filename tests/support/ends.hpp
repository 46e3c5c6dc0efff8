// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call ended, as a string.
#pragma once

#include <kolo/core/error.hpp>

#include <string>

namespace testing {

/// "fine", or the error's code and the rank that it names.
template <class F>
std::string end_of(F call) {
  try {
    call();
    return "fine";
  } catch (const kolo::error& e) {
    return std::string{kolo::name(e.code())} + ' ' + std::to_string(e.peer());
  }
}
/// The error's message; empty if there is none.
template <class F>
std::string words_of(F call) {
  try {
    call();
    return "";
  } catch (const kolo::error& e) {
    return e.what();
  }
}

}  // namespace testing
