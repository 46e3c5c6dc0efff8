// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches pieces that are visible before their data, and large vectors that are copied past caches that hold them.
#include "support/one_way.hpp"

/// If the way past the cache takes three times as long, nearly all copies take the other one.
bool takes_the_cheaper_way() {
  using kolo::detail::core::stored_by;
  kolo::detail::core::one_way_copy way;
  int past = 0;
  for (int i = 0; i < 64; ++i) {
    const auto chosen = way.choose(way.least_timed);
    past += chosen == stored_by::past_cache ? 1 : 0;
    way.took(chosen, chosen == stored_by::past_cache ? 3.0f : 2.0f);
  }
#if defined(__SSE2__)
  return past == 2;
#else
  return past == 0;
#endif
}

int main() {
  // As long as a vector must be to be taken for a long one; a large cache holds it and its copy.
  const auto least_long = std::max(std::size_t{8} << 20, (kolo::detail::core::largest_cache_bytes() + 3) / 4);
  const bool in_order = leaves_in_order(kolo::detail::core::one_way_copy::least_timed + 40);
  return in_order && replies_leave_in_order(std::size_t{64} << 10) && takes_the_cheaper_way() &&
                 goes_past_caches_that_do_not_hold_it(least_long)
             ? 0
             : 1;
}
