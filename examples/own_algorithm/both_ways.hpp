// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An algorithm of your own: a bidirectional ring; each direction carries half of the vector, so that all links are used.
#pragma once
#include <kolo/schedule/verify.hpp>

struct both_ways {  // pure: rank, size, round -> transfers
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr bool supports(int p) { return p > 2; }  // with two ranks both neighbours are the same
  static constexpr int blocks(int p) { return 2 * p; }     // 0, 2, 4, ... go to the right, 1, 3, 5, ... to the left
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr kolo::step at(int r, int p, int k) {
    const auto block = [=](int i, int way) { return 2 * kolo::mod(i, p) + (way < 0); };
    kolo::step now;
    for (const int way : {1, -1})
      now += {.to = kolo::mod(r + way, p),
              .send = {block(r - way * k, way), 1},
              .from = kolo::mod(r - way, p),
              .receive = {block(r - way * (k + 1), way), 1},
              .then = k < p - 1 ? kolo::arrival::theirs_first : kolo::arrival::replace};
    return now;
  }
};
static_assert(kolo::is_allreduce<both_ways, 3, 16>);  // a mistake names the size, rank, round and block
