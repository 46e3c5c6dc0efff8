// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The counted cost of every schedule is the documented one: rounds, and bytes of the busiest rank.
#include "unit/schedule/costs.hpp"
#include "unit/schedule/list.hpp"

using namespace kolo;
using namespace costs;

TEST_CASE("the cost of an allreduce") {
  check("ring", ring::allreduce{}, [](int p, std::size_t n) {
    return cost{2 * (p - 1), 2 * others(p), 2 * most_of(p, n), 2 * most_of(p, n), most_of(p, n)};
  });
  check("circulant", circulant::allreduce{}, [](int p, std::size_t n) {
    return cost{2 * ceil_log2(p), 2 * q(p), 2 * most_of(p, n), 2 * most_of(p, n), most_of(p, n)};
  });
  check("recursive doubling", recursive_doubling::allreduce{}, [](int p, std::size_t n) {
    const std::size_t lg = lg_floor(p),
                      folded = floor_power_of_two(p) == p ? 0 : 1;  // a rank that acts for two does one more of each
    return cost{static_cast<int>(lg + 2 * folded), lg + folded, (lg + folded) * n, (lg + folded) * n,
                (lg + folded) * n};
  });
  check("one shot", one_shot::allreduce{}, [](int p, std::size_t n) {
    return cost{1, others(p), others(p) * n, others(p) * n, others(p) * n};
  });
  check("two shot", two_shot::allreduce{}, [](int p, std::size_t n) {
    return cost{2, 2 * others(p), 2 * most_of(p, n), 2 * most_of(p, n), most_of(p, n)};
  });
}

TEST_CASE("the cost of a reduce_scatter") {
  check("ring", ring::reduce_scatter{}, [](int p, std::size_t n) {
    return cost{p - 1, others(p), most_of(p, n), most_of(p, n), most_of(p, n)};
  });
  check("circulant", circulant::reduce_scatter{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), most_of(p, n), most_of(p, n), most_of(p, n)};
  });
  check("one shot", one_shot::reduce_scatter{}, [](int p, std::size_t n) {
    return cost{1, others(p), most_of(p, n), most_of(p, n), most_of(p, n)};
  });
}

TEST_CASE("the cost of an allgather") {
  check("ring", ring::allgather{}, [](int p, std::size_t n) {
    return cost{p - 1, others(p), most_of(p, n), most_of(p, n), 0};
  });
  check("recursive doubling", recursive_doubling::allgather{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), most_of(p, n), most_of(p, n), 0};
  });
  check("circulant", circulant::allgather{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), most_of(p, n), most_of(p, n), 0};
  });
  check("one shot", one_shot::allgather{}, [](int p, std::size_t n) {
    return cost{1, others(p), most_of(p, n), most_of(p, n), 0};
  });
}

TEST_CASE("the cost of a broadcast") {
  check("binomial", binomial::broadcast{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), q(p) * n, n, 0};
  });
  check("van de Geijn", van_de_geijn::broadcast{}, [](int p, std::size_t n) {
    return cost{2 * ceil_log2(p), 2 * q(p), 2 * most_of(p, n), subtree(p, n) + most_of(p, n), 0};
  });
  check("van de Geijn with a ring", van_de_geijn_ring::broadcast{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p) + p - 1, q(p) + others(p), 2 * most_of(p, n), subtree(p, n) + most_of(p, n), 0};
  });
  check("chain", chain::broadcast{}, [](int p, std::size_t n) { return cost{p - 2 + 16, 16, n, n, 0}; });
  check("chain of 3 segments", chain::broadcast{{.segments = 3}}, [](int p, std::size_t n) {
    return cost{p - 2 + 3, 3, n, n, 0};
  });
  check("one shot", one_shot::broadcast{}, [](int p, std::size_t n) {
    return cost{1, others(p), others(p) * n, n, 0};
  });
}

TEST_CASE("the cost of a reduce") {
  check("binomial", binomial::reduce{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), 1, n, q(p) * n, q(p) * n};
  });
  check("forwarded binomial", forwarded<binomial::reduce>{1}, [](int p, std::size_t n) {
    return cost{ceil_log2(p) + 1, 1, n, q(p) * n, q(p) * n};
  });
  check("one shot", one_shot::reduce{}, [](int p, std::size_t n) {
    return cost{1, 1, n, others(p) * n, others(p) * n};
  });
}

TEST_CASE("the cost of the other collectives") {
  check("binomial gather", binomial::gather{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), 1, subtree(p, n), most_of(p, n), 0};
  });
  check("binomial scatter", binomial::scatter{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), most_of(p, n), subtree(p, n), 0};
  });
  check("one shot gather", one_shot::gather{}, [](int p, std::size_t n) {
    return cost{1, 1, n / static_cast<std::size_t>(p), most_of(p, n), 0};
  });
  check("one shot scatter", one_shot::scatter{}, [](int p, std::size_t n) {
    return cost{1, others(p), most_of(p, n), n / static_cast<std::size_t>(p), 0};
  });
  check("one shot alltoall", one_shot::alltoall{}, [](int p, std::size_t n) {
    return cost{1, others(p), most_of(p, n), most_of(p, n), 0};
  });
  check("chain scan", chain::scan{}, [](int p, std::size_t n) { return cost{p - 2 + 16, 16, n, n, n}; });
  check("chain exclusive scan", chain::exclusive_scan{}, [](int p, std::size_t n) {
    return cost{2 * (p - 2) + 16, 16, n, n, p > 2 ? n : 0};  // the last rank combines nothing
  });
  check("dissemination", dissemination::barrier{}, [](int p, std::size_t n) {
    return cost{ceil_log2(p), q(p), q(p) * n, q(p) * n, 0};
  });
}

TEST_CASE("uneven blocks are counted one by one") {
  const int blocks = 5;
  for (const std::size_t bytes : {0u, 1u, 4u, 5u, 7u, 23u})
    for (int first = 0; first < 2 * blocks; ++first)
      for (int count = 0; count <= blocks; ++count)
        for (const int stride : {1, 2, 3})
          for (const int run : {1, 2, 3})
            for (int peer = 0; peer < 3; ++peer) {
              const block_range range{.first = first, .count = count, .stride = stride, .run = run, .per_peer = 2};
              std::size_t sum = 0;
              for (int i = 0; i < count; ++i)
                sum += block(bytes, blocks, kolo::detail::schedule::block_at(range, i, peer, blocks, 2) % blocks).count;
              INFO(bytes << " bytes; " << count << " from " << first << ", stride " << stride << ", run " << run
                         << ", peer " << peer);
              REQUIRE(bytes_in(range, peer, blocks, 2, bytes) == sum);
            }
}
