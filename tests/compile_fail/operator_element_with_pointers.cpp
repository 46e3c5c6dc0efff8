// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements that own memory cannot be sent as bytes.
// expect: kolo: an element must be trivially copyable
#include <kolo/reduce/operators.hpp>

#include <array>
#include <string>

int main() {
  const auto longer = [](const auto& a, const auto& b) { return a.size() < b.size() ? b : a; };
#ifdef KOLO_WRONG
  kolo::operator_check<decltype(longer), std::string>();
#else
  kolo::operator_check<decltype(longer), std::array<char, 8>>();
#endif
}
