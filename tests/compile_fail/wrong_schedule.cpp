// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule that is wrong at one place is refused, and the message names the place.
// expect: kolo: this schedule breaks a law
// expect: size<[0-9]+>.*rank<[0-9]+>.*round<[0-9]+>.*block<[0-9]+>
#include <kolo/schedule/verify.hpp>

#ifdef KOLO_WRONG
inline constexpr int off = 2;
#else
inline constexpr int off = 1;
#endif

struct my_ring {
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr kolo::step at(int r, int p, int k) {
    using kolo::mod, kolo::arrival;
    return kolo::transfer{.to = mod(r + 1, p),
                          .send = {mod(r - k, p), 1},
                          .from = mod(r - 1, p),
                          .receive = {mod(r - k - off, p), 1},
                          .then = k < p - 1 ? arrival::theirs_first : arrival::replace};
  }
};
static_assert(kolo::is_allreduce<my_ring, 2, 16>);
