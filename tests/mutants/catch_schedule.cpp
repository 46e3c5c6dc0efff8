// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the schedules, and in their proof: everything good is proven, and what is spoilt is not.
#include "unit/schedule/list.hpp"

#include <kolo/schedule/permuted.hpp>
#include <kolo/schedule/verify.hpp>

#include <cstdio>

namespace {

using namespace kolo;

int wrong = 0;

void expect(fault what, const verdict& v) {
  if (v.what == what) return;
  std::printf("expected \"%s\", found %s\n", sentence(what), v.message().c_str());
  ++wrong;
}

/// A schedule of two ranks and one round, in which rank 0 is told `first`, and rank 1 `second`.
template <kind K, bool Ordered = false>
struct spoilt {
  static constexpr auto collective = K;
  static constexpr bool ordered = Ordered;
  transfer first{}, second{};
  int number_of_blocks = 1, number_of_rounds = 1;
  constexpr int blocks(int) const { return number_of_blocks; }
  constexpr int rounds(int) const { return number_of_rounds; }
  constexpr step at(int r, int, int) const { return r == 0 ? first : second; }
};

}  // namespace

/// Rank 0's block on both ranks.
struct spread {
  static constexpr auto collective = kind::permutation;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int r, int, int) {
    if (r > 0) return transfer{.from = 0, .receive = {1, 1}};
    step s = transfer{.to = 1, .send = {0, 1}};
    s += {.to = 0, .send = {0, 1}, .from = 0, .receive = {1, 1}};
    return s;
  }
};
/// Goes one further than it says.
struct further : shifted<2> {
  static constexpr int source(int r, int p) { return mod(r - 1, p); }
};

void permutations() {
  for (int p = 2; p <= 9; ++p) {
    for (const int distance : {1, -1, 4, -10}) expect(fault::none, verify(shifted_by{distance}, p));
    expect(fault::none, verify(permuted{[](int r, int n) { return n - 1 - r; }}, p));
    expect(fault::none, verify(permuted{[](int r, int n) { return (r + 2) % n; }}, p));
  }
  expect(fault::counted_twice, verify(spread{}, 2));
  expect(fault::not_promised, verify(further{}, 4));
  expect(fault::unsupported, verify(permuted{[](int, int) { return 1; }}, 3));
  expect(fault::unsupported, verify(permuted{[](int r, int) { return r + 1; }}, 3));
}

int main() {
  permutations();
  for_each_schedule([](const char*, const auto& schedule) {
    for (int p = 1; p <= 17; ++p)
      if (supports(schedule, p)) expect(fault::none, verify(schedule, p));
  });

  if (recursive_multiplying::allreduce{}.rounds(12) != 2 || recursive_multiplying::allreduce{}.rounds(11) != 5) ++wrong;

  const transfer swap{.to = 1, .send = {0, 1}, .from = 1, .receive = {0, 1}, .then = arrival::mine_first};
  transfer back = swap;
  back.to = back.from = 0;
  expect(fault::none, verify(spoilt<kind::allreduce>{swap, back}, 2));
  expect(fault::order, verify(spoilt<kind::allreduce, true>{swap, back}, 2));
  expect(fault::counted_twice, verify(spoilt<kind::allreduce>{swap, back, 1, 2}, 2));
  expect(fault::missing, verify(spoilt<kind::allreduce>{swap, back, 2}, 2));
  expect(fault::unmatched_send, verify(spoilt<kind::allreduce>{swap, {}}, 2));

  using broadcast = spoilt<kind::broadcast>;
  const transfer out{.to = 1, .send = {0, 1}}, in{.from = 0, .receive = {0, 1}};
  transfer combines = in, misplaced = in, shorter = in;
  combines.then = arrival::theirs_first;
  misplaced.receive.first = 1;
  shorter.receive.count = 0;
  expect(fault::none, verify(broadcast{out, in}, 2));
  expect(fault::no_operator, verify(broadcast{out, combines}, 2));
  expect(fault::different_blocks, verify(broadcast{out, misplaced, 2}, 2));
  expect(fault::different_lengths, verify(broadcast{out, shorter}, 2));
  expect(fault::sends_nothing, verify(broadcast{{.from = 1, .receive = {0, 1}}, {.to = 0, .send = {0, 1}}}, 2));
  return wrong == 0 ? 0 : 1;
}
