// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks results in the examples of this folder: a rank with a wrong result throws, so the program fails.
#pragma once

#include <stdexcept>
#include <string>

inline void expect(bool holds, const char* sentence) {
  if (!holds) throw std::runtime_error(std::string{"this does not hold: "} + sentence);
}
