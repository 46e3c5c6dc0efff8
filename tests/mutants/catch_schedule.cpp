// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the schedules and in their proof: every right schedule must be proven, and every wrong one refused.
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

/// A schedule of two ranks and one round: rank 0 does `first`, and rank 1 `second`.
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
/// Shifts by one more than it declares.
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

/// A relative schedule in which all ranks do the same wrong thing in one round, for the proof by rank 0 alone.
template <class S>
struct worse_in {
  static constexpr auto collective = S::collective;
  static constexpr bool relative = true;
  S good{};
  int round = -1;
  bool is_misplaced = false;
  constexpr int blocks(int p) const { return good.blocks(p); }
  constexpr int rounds(int p) const { return good.rounds(p); }
  constexpr step at(int r, int p, int k) const {
    step all{good.at(r, p, k)};
    if (k != round) return all;
    transfer t = all[0];
    if (is_misplaced) t.receive.first = mod(t.receive.first + 1, p);
    else t.send.count -= 1, t.receive.count -= 1;
    return t;
  }
};
template <class S>
void by_one_rank(S good) {
  for (int p = 2; p <= 9; ++p)
    for (int k = -1; k < good.rounds(p); ++k) {
      for (const bool is_misplaced : {false, true}) {
        const worse_in<S> some{good, k, is_misplaced};
        const detail::schedule::erased<worse_in<S>> subject{some, p};
        const auto told = detail::schedule::representative{subject}.run();
        if (!told || bool{*told} != (k < 0))
          ++wrong, std::printf("the proof by one rank differs from the proof by all\n");
      }
    }
}
/// Rank 250 does nothing in round 1.
struct but_one : circulant::reduce_scatter {
  static constexpr step at(int r, int p, int k) {
    return r == 250 && k == 1 ? step{} : step{circulant::reduce_scatter::at(r, p, k)};
  }
};
/// One contribution arrives twice, another one never; their number is right.
struct twice {
  static constexpr auto collective = kind::reduce_scatter;
  static constexpr bool relative = true;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int) { return 2; }
  static constexpr step at(int r, int p, int) {
    return transfer{.to = mod(r + 2, p),
                    .send = {mod(r + 2, p), 1},
                    .from = mod(r - 2, p),
                    .receive = {r, 1},
                    .then = arrival::mine_first};
  }
};

int main() {
  permutations();
  by_one_rank(ring::allreduce{}), by_one_rank(circulant::allreduce{}), by_one_rank(bruck::allgather{}),
      by_one_rank(pairwise::reduce_scatter{});
  expect(fault::not_relative, verify(but_one{}, 401));
  {
    const twice bad{};
    const detail::schedule::erased<twice> subject{bad, 3};
    const auto told = detail::schedule::representative{subject}.run();
    if (!told || *told) ++wrong, std::printf("a contribution that is counted twice was accepted\n");
  }
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
