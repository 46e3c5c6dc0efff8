// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules that combine by different trees are distinguished, and the verdict names the block and shows both trees.
#include "support/catch.hpp"

#include <kolo/schedule/catalogue.hpp>
#include <kolo/schedule/same_bits.hpp>

#include <sstream>

using namespace kolo;

namespace {

constexpr auto wider = partial_results::wider;

/// Rank 0 combines the blocks of the other ranks, in turn from the left or from the right, or all at once.
struct in_turn {
  static constexpr auto collective = kind::reduce;
  bool from_right = false, at_once = false;
  int number_of_blocks = 1;
  constexpr int blocks(int) const { return number_of_blocks; }
  constexpr int rounds(int p) const { return at_once ? 1 : p - 1; }
  constexpr step at(int r, int p, int k) const {
    const block_range all{0, number_of_blocks};
    if (r == 0 && at_once) return transfer{.from = {1, p - 1}, .receive = all, .then = arrival::in_rank_order};
    const int now = from_right ? p - 1 - k : k + 1;
    if (r == 0) return transfer{.from = now, .receive = all, .then = arrival::mine_first};
    if (at_once || r == now) return transfer{.to = 0, .send = all};
    return {};
  }
};

template <class A, class B>
void check(const A& a, const B& b, int p, bits_fault as_elements, bits_fault if_wider) {
  const auto one = compare_bits(a, b, p), other = compare_bits(a, b, p, wider), turned_round = compare_bits(b, a, p);
  INFO(p << " ranks: " << one << "; " << other);
  CHECK(one.what == as_elements);
  CHECK(other.what == if_wider);
  CHECK(turned_round.what == as_elements);
}

}  // namespace

TEST_CASE("the same tree, another tree, and the same tree in other passes") {
  using enum bits_fault;
  const in_turn left{}, right{.from_right = true}, at_once{.at_once = true};
  for (int p = 2; p <= 9; ++p) {
    check(left, left, p, none, none);
    check(left, right, p, p == 2 ? none : other_tree, p == 2 ? none : other_tree);
    check(left, at_once, p, none, p == 2 ? none : rounds_elsewhere);
    check(at_once, one_shot::reduce{}, p, none, none);
    check(one_shot::allreduce{}, two_shot::allreduce{}, p, none, none);
    check(recursive_doubling::allreduce{}, rabenseifner::allreduce{}, p, none, none);
    check(recursive_doubling::allreduce{}, one_shot::allreduce{}, p, p <= 3 ? none : other_tree,
          p == 2   ? none
          : p == 3 ? rounds_elsewhere
                   : other_tree);
  }
}

TEST_CASE("if one schedule has more blocks than the other, all blocks need one tree") {
  using enum bits_fault;
  check(ring::allreduce{}, ring::allreduce{}, 5, none, none);
  check(ring::allreduce{}, one_shot::allreduce{}, 5, other_tree, other_tree);
  check(double_tree::allreduce{{.segments = 4}}, double_tree::allreduce{{.segments = 4}}, 6, none, none);
  check(double_tree::allreduce{{.segments = 4}}, double_tree::allreduce{{.segments = 8}}, 6, other_tree, other_tree);
  check(chain::reduce{{.segments = 4}}, chain::reduce{{.segments = 8}}, 6, none,
        rounds_elsewhere);  // only the last segment finishes in its pass
  check(in_turn{.number_of_blocks = 3}, in_turn{.number_of_blocks = 7}, 6, none, none);
  check(one_shot::reduce_scatter{}, pairwise::reduce_scatter{}, 2, none, none);
  check(one_shot::reduce_scatter{}, pairwise::reduce_scatter{}, 4, other_tree, other_tree);
}

TEST_CASE("scans are compared on every rank, and a reduce at its root") {
  using enum bits_fault;
  check(chain::scan{{.segments = 3}}, recursive_doubling::scan{}, 3, other_tree, other_tree);
  CHECK(compare_bits(chain::scan{}, recursive_doubling::scan{}, 5).rank == 2);
  check(chain::exclusive_scan{{.segments = 3}}, chain::exclusive_scan{{.segments = 4}}, 5, none, none);
  check(binomial::reduce{}, forwarded<binomial::reduce>{3}, 5, none, none);
  check(one_shot::reduce{}, forwarded<binomial::reduce>{3}, 5, other_tree, other_tree);
}

TEST_CASE("a verdict names the block and shows both trees") {
  CHECK(compare_bits(recursive_doubling::allreduce{}, one_shot::allreduce{}, 4).message() ==
        "allreduce of 4 ranks: rank 0, block 0: combined by different trees: ((0 1) (2 3)), and (0 1 2 3)");
  const auto v = compare_bits(double_tree::allreduce{{.segments = 4}}, double_tree::allreduce{{.segments = 8}}, 5);
  CHECK((!v && v.block_of_first == 1 && v.block_of_second == 0));
  std::ostringstream said;
  said << v;
  CHECK(said.str() ==
        "allreduce of 5 ranks: rank 0, block 1 and block 0 of the other: combined by different trees: "
        "(0 (1 ((2 3) 4))), and (0 ((1 (2 3)) 4))");
  CHECK(compare_bits(in_turn{}, in_turn{.at_once = true}, 3).message() == "reduce of 3 ranks: the same bits");
}

TEST_CASE("a wrong schedule is unproven, and an unsupported one is not compared") {
  struct forgets_the_last : in_turn {
    constexpr int rounds(int p) const { return p - 2; }
  };
  const auto v = compare_bits(in_turn{}, forgets_the_last{}, 4);
  CHECK(v.what == bits_fault::unproven);
  CHECK(v.message() == "reduce of 4 ranks: rank 0, block 0: contribution missing at the end");
  CHECK(compare_bits(chain::reduce{{.segments = 0}}, in_turn{}, 4).what == bits_fault::unsupported);
  CHECK(compare_bits(in_turn{}, in_turn{}, 1));
  CHECK(compare_bits(in_turn{}, in_turn{}, 0).what == bits_fault::unsupported);
}
