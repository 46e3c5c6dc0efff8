// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The counted cost of trees, pipelines and doubling scans is the documented one.
#include "support/sanitized.hpp"
#include "unit/schedule/costs.hpp"

#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant_pipelined.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/recursive_doubling.hpp>

#include <cmath>

using namespace costs;

namespace {

/// Rounds of a double tree until the first segment has arrived everywhere, minus one.
int height(int p) {
  const int m = (p - 1) / 2 * 2;
  if (m == 0) return 0;
  return 2 * ceil_log2(floor_power_of_two(m)) + (p % 2 == 0 ? 1 : 0) - (m % 4 == 0 ? 1 : 0);
}
/// Messages of the busiest rank, if n bytes are 16 messages up and 16 down: with 3 ranks none has two children.
std::size_t up_and_down(int p) { return p == 2 ? 16 : p == 3 ? 24 : 32; }

/// Does every rank send at most one message in a round, and receive at most one?
template <class S>
bool has_one_port(const S& schedule, int p) {
  for (int k = 0; k < schedule.rounds(p); ++k)
    for (int r = 0; r < p; ++r) {
      int sends = 0, receives = 0;
      for (const transfer& t : step{schedule.at(r, p, k)}) sends += t.to.count, receives += t.from.count;
      if (sends > 1 || receives > 1) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("in a pipeline no rank sends or receives twice in a round") {
  for (int p = 2; p <= (testing::is_sanitized ? 65 : 257); ++p) {
    INFO(p << " ranks");
    CHECK(has_one_port(double_tree::broadcast{}, p));
    CHECK(has_one_port(double_tree::reduce{{.segments = 7}}, p));
    CHECK(has_one_port(double_tree::allreduce{}, p));
    CHECK(has_one_port(circulant_pipelined::broadcast{}, p));
    CHECK(has_one_port(circulant_pipelined::reduce{}, p));
    CHECK(has_one_port(chain::reduce{}, p));
  }
}

TEST_CASE("the cost of a double tree") {
  check("broadcast", double_tree::broadcast{}, [](int p, std::size_t n) { return cost{16 + height(p), 16, n, n, 0}; });
  check("broadcast in 3 segments", double_tree::broadcast{{.segments = 3}}, [](int p, std::size_t n) {
    const std::size_t most = p < 5 ? 3 : 4;  // a rank with two children forwards the two even segments twice
    return cost{3 + height(p), most, most * n / 3, n, 0};
  });
  check("reduce", double_tree::reduce{}, [](int p, std::size_t n) { return cost{16 + height(p), 16, n, n, n}; });
  check("allreduce", double_tree::allreduce{}, [](int p, std::size_t n) {
    const std::size_t most = up_and_down(p);
    return cost{2 * (16 + height(p)), most, most * n / 16, most * n / 16, n};
  });
}

TEST_CASE("the rounds of a double tree are at most B + 2 lg p + 1, and more than B + 2 lg p - 4") {
  for (int p = 2; p <= (testing::is_sanitized ? 65 : 1025); ++p) {
    const double lg = 2 * std::log2(p), rounds = double_tree::broadcast{}.rounds(p) - 16;
    INFO(p << " ranks");
    CHECK((rounds <= lg + 1 && rounds > lg - 4));
  }
}

TEST_CASE("the cost of a pipelined circulant graph: the least number of rounds") {
  check("broadcast", circulant_pipelined::broadcast{}, [](int p, std::size_t n) {
    const auto rounds = 15 + q(p);
    return cost{static_cast<int>(rounds), rounds, rounds * n / 16, n, 0};
  });
  check("broadcast in 1 segment", circulant_pipelined::broadcast{{.segments = 1}}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), q(p) * n, n, 0};
  });
  check("reduce", circulant_pipelined::reduce{}, [](int p, std::size_t n) {
    const auto rounds = 15 + q(p);
    return cost{static_cast<int>(rounds), 16, n, rounds * n / 16, rounds * n / 16};
  });
}

TEST_CASE("the cost of a reduce along a chain") {
  check("reduce", chain::reduce{}, [](int p, std::size_t n) { return cost{p - 2 + 16, 16, n, n, n}; });
}

TEST_CASE("the cost of doubling scans") {
  check("scan", recursive_doubling::scan{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), q(p) * n, q(p) * n, q(p) * n};
  });
  check("exclusive scan", recursive_doubling::exclusive_scan{}, [](int p, std::size_t n) {
    const auto lg = q(p - 1);
    return cost{static_cast<int>(lg + 1), lg + 1, (lg + 1) * n, (lg + 1) * n, lg * n};
  });
}

TEST_CASE("the cost of a barrier of a larger radix") {
  for (const int radix : {2, 3, 4, 5})
    for (int p = 2; p <= (testing::is_sanitized ? 65 : 630); ++p) {
      const dissemination::barrier schedule{{.radix = radix}};
      int rounds = 0, messages = 0;
      for (int known = 1; known < p; known *= radix) {
        ++rounds;
        messages += std::min(radix - 1, (p - 1) / known);  // in the last round perhaps fewer
      }
      const cost counted = cost_of(schedule, p / 2, p, 0);
      INFO("radix " << radix << ", " << p << " ranks");
      CHECK(counted.rounds == rounds);
      CHECK(counted.messages == static_cast<std::size_t>(messages));
    }
}
