// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in pictures of schedules: the contents of cells, the number of arrows, the promised blocks, names, errors.
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/draw.hpp>
#include <kolo/schedule/ring.hpp>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

int occurrences(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// Combines where it should store.
struct never_stores {
  static constexpr auto collective = kind::allreduce;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr step at(int r, int p, int k) {
    return transfer{.to = mod(r + 1, p),
                    .send = {mod(r - k, p), 1},
                    .from = mod(r - 1, p),
                    .receive = {mod(r - k - 1, p), 1},
                    .then = arrival::theirs_first};
  }
};

}  // namespace

int main() {
  const auto ring = draw(kolo::ring::allreduce{}, 4, "<&>");
  expect(occurrences(ring, "<path class=\"message\"") == 12, "arrows of combined messages");
  expect(occurrences(ring, "<path class=\"message copy\"") == 12, "arrows of stored messages");
  expect(occurrences(ring, "class=\"cell\"") == 4 * 4 * 7, "cells");
  expect(occurrences(ring, "-cf\" x") >= 16 + 4, "full cells");
  expect(occurrences(ring, "-c5\" x") == 0, "ranks 0 and 2 are not neighbours");
  expect(occurrences(ring, "class=\"promised\"") == 4, "one frame per rank");
  expect(occurrences(ring, "&lt;&amp;&gt;") == 2, "the name is escaped, twice");
  expect(occurrences(draw(one_shot::allgather{}, 4), "class=\"cell\" href=\"#a0-c4\"") == 1 + 4,
         "block 2 comes from rank 2");
  expect(occurrences(draw(one_shot::allreduce{}, 3), "-x") == 0, "a message has the block's contents before the round");
  expect(occurrences(draw(kolo::ring::reduce_scatter{}, 4), "class=\"promised\"") == 4, "one of p blocks is promised");
  const auto wrong = draw(never_stores{}, 3);
  expect(occurrences(wrong, "counted twice") == 1 && occurrences(wrong, "proven") == 0, "the fault is named");
  expect(occurrences(wrong, "-x7\" x") > 0, "a block that is counted twice is marked");
  const auto many = draw(kolo::ring::allreduce{}, 17, "many");
  expect(occurrences(many, "round 31: 17 messages") == 1 && occurrences(many, "stroke-opacity=\".99\"") >= 13,
         "the squares of the last round, and a block that all ranks hold");
  expect(draw(kolo::ring::reduce_scatter{}, 4).find("<title>ring: reduce") != std::string::npos, "the name of a ring");
  drawing both;
  both.add(kolo::ring::allreduce{}, 4, "one").add(circulant::allreduce{}, 4, "two");
  expect(occurrences(both.svg(), "id=\"a1-cf\"") == 1, "each picture defines its own cells");
  return good ? 0 : 1;
}
