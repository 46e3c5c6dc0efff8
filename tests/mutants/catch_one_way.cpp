// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches pieces that may be seen before they are there, and vectors that go past caches which hold them.
#include "support/one_way.hpp"

int main() {
  const bool in_order = leaves_in_order(kolo::detail::core::one_way_copy::least_timed + 40);
  return in_order && goes_past_caches_that_do_not_hold_it(std::size_t{8} << 20) ? 0 : 1;
}
