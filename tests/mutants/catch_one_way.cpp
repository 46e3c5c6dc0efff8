// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches pieces that are seen before they are there.
#include "support/one_way.hpp"

int main() {
  for (int i = 0; i < 10; ++i)
    if (!arrives_whole(kolo::detail::host_executor::short_piece + 40, 1000)) return 1;
  return 0;
}
