// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches pieces that are seen before they are there.
#include "support/one_way.hpp"

int main() { return arrives_whole(kolo::detail::host_executor::short_piece + 40, 5000) ? 0 : 1; }
