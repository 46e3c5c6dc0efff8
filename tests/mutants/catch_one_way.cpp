// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches pieces that may be seen before they are there.
#include "support/one_way.hpp"

int main() { return leaves_in_order(kolo::detail::execute::host_executor::short_piece + 40) ? 0 : 1; }
