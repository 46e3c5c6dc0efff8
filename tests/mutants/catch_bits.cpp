// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the comparison of two schedules: it must find equal bits equal, and different bits different.
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/same_bits.hpp>

#include <cstdio>

namespace {

using namespace kolo;

int wrong = 0;

void expect(bits_fault what, const bits_verdict& v) {
  if (v.what == what) return;
  std::printf("expected \"%s\", found %s\n", sentence(what), v.message().c_str());
  ++wrong;
}

/// Rank 0 receives from the other ranks one after another or at once; no round applies the operator's finish.
struct in_turn {
  static constexpr auto collective = kind::reduce;
  bool at_once = false;
  constexpr int blocks(int) const { return 1; }
  constexpr int rounds(int p) const { return p; }
  constexpr step at(int r, int p, int k) const {
    if (k == p - 1 || (at_once && k > 0)) return {};
    if (r > 0) return at_once || r == k + 1 ? step{transfer{.to = 0, .send = {0, 1}}} : step{};
    const peer_range now = at_once ? peer_range{1, p - 1} : peer_range{k + 1};
    return transfer{.from = now, .receive = {0, 1}, .then = arrival::in_rank_order};
  }
};

}  // namespace

int main() {
  using enum bits_fault;
  constexpr auto wider = partial_results::wider;
  for (const int p : {4, 6, 9}) {
    expect(none, compare_bits(one_shot::allreduce{}, two_shot::allreduce{}, p, wider));
    expect(none, compare_bits(recursive_doubling::allreduce{}, rabenseifner::allreduce{}, p, wider));
    expect(other_tree, compare_bits(recursive_doubling::allreduce{}, one_shot::allreduce{}, p));
  }
  const auto trees_in = [](int segments) { return double_tree::allreduce{{.segments = segments}}; };
  expect(other_tree, compare_bits(trees_in(4), trees_in(8), 6));
  expect(other_tree, compare_bits(trees_in(8), trees_in(4), 6));
  expect(other_tree, compare_bits(trees_in(1), trees_in(2), 6));
  expect(none, compare_bits(chain::reduce{{.segments = 4}}, chain::reduce{{.segments = 5}}, 6));
  expect(rounds_elsewhere, compare_bits(chain::reduce{{.segments = 4}}, chain::reduce{{.segments = 5}}, 6, wider));
  expect(rounds_elsewhere, compare_bits(recursive_doubling::allreduce{}, one_shot::allreduce{}, 3, wider));
  expect(none, compare_bits(in_turn{}, in_turn{true}, 4));
  expect(rounds_elsewhere, compare_bits(in_turn{}, in_turn{true}, 4, wider));
  return wrong == 0 ? 0 : 1;
}
