// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the examples of this folder check what they show: a rank that finds something else throws, and so the program fails.
#pragma once

#include <stdexcept>
#include <string>

inline void expect(bool holds, const char* sentence) {
  if (!holds) throw std::runtime_error(std::string{"this does not hold: "} + sentence);
}
