// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in memory orders and in wake-ups: runs the slot protocols in every order, with every value that may be read.
// instrumented, with explore/explorer.cpp
#include "explore/protocols.hpp"

int main() {
  kolo::error::remember_none();
  return explore::all_protocols() ? 0 : 1;
}
