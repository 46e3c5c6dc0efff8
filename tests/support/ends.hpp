// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call ended, as a string; and what that contains.
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
/// The message of the exception, an E; empty if there is none.
template <class E = kolo::error>
std::string words_of(callable_ref<> call) {
  try {
    call();
    return "";
  } catch (const E& e) {
    return e.what();
  }
}

/// Whether a part of the text is `part`.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace testing
