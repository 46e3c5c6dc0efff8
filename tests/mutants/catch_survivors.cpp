// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the memory orders and steps of shrink's agreement: runs it in every order, with every value that may be read.
// instrumented, with explore/explorer.cpp
#include "explore/shrinking.hpp"

int main() { return explore::all_agreements() ? 0 : 1; }
