// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches pieces that are visible before their data, and large vectors that are copied past caches that hold them.
#include "support/one_way.hpp"

/// If the way past the cache takes three times as long, nearly all copies take the other one.
bool takes_the_cheaper_way() {
  kolo::detail::core::one_way_copy way;
  int past = 0;
  for (int i = 0; i < 64; ++i) {
    const bool past_cache = way.next();
    past += past_cache ? 1 : 0;
    way.took(past_cache, past_cache ? 3.0f : 1.0f);
  }
  return past == 2;
}

int main() {
  const bool in_order = leaves_in_order(kolo::detail::core::one_way_copy::least_timed + 40);
  return in_order && takes_the_cheaper_way() && goes_past_caches_that_do_not_hold_it(std::size_t{8} << 20) ? 0 : 1;
}
