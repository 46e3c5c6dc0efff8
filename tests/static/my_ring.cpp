// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A user's own algorithm is written and proven in a few lines.
#include <kolo/schedule/verify.hpp>

struct my_ring {  // pure: rank, size, round -> transfers
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr kolo::step at(int r, int p, int k) {
    using kolo::mod, kolo::arrival;
    return kolo::transfer{.to = mod(r + 1, p),
                          .send = {mod(r - k, p), 1},
                          .from = mod(r - 1, p),
                          .receive = {mod(r - k - 1, p), 1},
                          .then = k < p - 1 ? arrival::theirs_first : arrival::replace};
  }
};
static_assert(kolo::is_allreduce<my_ring, 2, 16>);  // every size from 2 to 16; a failure names size, rank, round, block
static_assert(kolo::verify(my_ring{}, 16).what == kolo::fault::none);
