// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The patterns of schedules: which run as streams, for which numbers of ranks; and the results of unusual schedules.
#include <kolo/execute/pattern.hpp>
#include <kolo/kolo.hpp>
#include <kolo/schedule/synthesized.hpp>
#include <kolo/schedule/verify.hpp>
#include <kolo/simulate/simulated.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

using kolo::pattern;

namespace {

template <kolo::Schedule S>
pattern of(int p, const S& s = {}) {
  return kolo::detail::execute::classify(kolo::detail::execute::erase_schedule(s, p), S::collective, p);
}

/// Two ranks swap their block: what arrives replaces what is sent.
struct trade {
  static constexpr auto collective = kolo::kind::broadcast;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr kolo::step at(int r, int, int) {
    return kolo::transfer{.to = 1 - r, .send = {0, 1}, .from = 1 - r, .receive = {0, 1}};
  }
};

/// A broadcast along the ring in which all other messages have no blocks.
struct around {
  static constexpr auto collective = kolo::kind::broadcast;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int p) { return p - 1; }
  static constexpr kolo::step at(int r, int p, int k) {
    return kolo::transfer{.to = kolo::mod(r + 1, p),
                          .send = {0, r == k ? 1 : 0},
                          .from = kolo::mod(r - 1, p),
                          .receive = {0, r == k + 1 ? 1 : 0}};
  }
};
static_assert(kolo::is_broadcast<around, 2, 8>);

/// In round k rank k sends its part to all. Each rank names the ranges of blocks, also if it has no peer to send to or receive from.
struct in_turn {
  static constexpr auto collective = kolo::kind::allgather;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return p; }
  static constexpr kolo::step at(int r, int p, int k) {
    return kolo::transfer{.to = r == k ? kolo::peer_range{kolo::mod(r + 1, p), p - 1} : kolo::nobody,
                          .send = {k, 1},
                          .from = r == k ? kolo::nobody : k,
                          .receive = {k, 1}};
  }
};
static_assert(kolo::is_allgather<in_turn, 2, 8>);

/// A scan along a chain of ranks, written in the same way.
struct along {
  static constexpr auto collective = kolo::kind::scan;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int p) { return p - 1; }
  static constexpr kolo::step at(int r, int, int k) {
    return kolo::transfer{.to = r == k ? r + 1 : kolo::nobody,
                          .send = {0, 1},
                          .from = r == k + 1 ? k : kolo::nobody,
                          .receive = {0, 1},
                          .then = kolo::arrival::theirs_first};
  }
};
static_assert(kolo::is_scan<along, 2, 8>);

/// Every rank has the result, although only one is promised it.
struct everywhere : kolo::one_shot::allreduce {
  static constexpr auto collective = kolo::kind::reduce;
};
static_assert(kolo::is_reduce<everywhere, 2, 8>);

/// Rank 0 receives a block in place of a result that it is not promised.
struct told_too_much {
  using scan = kolo::recursive_doubling::exclusive_scan;
  static constexpr auto collective = kolo::kind::exclusive_scan;
  static constexpr bool ordered = true;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int p) { return scan::rounds(p); }
  static constexpr kolo::step at(int r, int p, int k) {
    if (k > 0) return scan::at(r, p, k);
    return kolo::transfer{.to = kolo::mod(r + 1, p), .send = {0, 1}, .from = kolo::mod(r - 1, p), .receive = {1, 1}};
  }
};
static_assert(kolo::is_exclusive_scan<told_too_much, 2, 8>);

/// As one_shot, except that rank 2 needs two transfers for what the others do in one.
struct in_two_transfers {
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr kolo::step at(int r, int p, int) {
    if (r != 2) return kolo::one_shot::allreduce::at(r, p, 0);
    kolo::step now;
    for (int peer = 0; peer < p; ++peer)
      if (peer != r)
        now += {.to = peer, .send = {0, 1}, .from = peer, .receive = {0, 1}, .then = kolo::arrival::mine_first};
    return now;
  }
};

/// Two rounds, but the block that comes back is not the one that was sent.
struct crossed : kolo::two_shot::allreduce {
  kolo::step at(int r, int p, int k) const {
    kolo::step now;
    for (kolo::transfer t : this->kolo::two_shot::allreduce::at(r, p, k)) {
      if (k == 1) t.receive.first = kolo::mod(t.receive.first + 1, p);
      now += t;
    }
    return now;
  }
};

}  // namespace

TEST_CASE("one round among all ranks is an exchange, up to 64 ranks") {
  for (const int p : {2, 3, 8, 17, 64}) {
    CHECK(of<kolo::one_shot::allreduce>(p) == pattern::exchange);
    CHECK(of<kolo::one_shot::reduce_scatter>(p) == pattern::exchange);
    CHECK(of<kolo::one_shot::allgather>(p) == pattern::exchange);
    CHECK(of<kolo::one_shot::alltoall>(p) == pattern::exchange);
    CHECK(of<kolo::one_shot::barrier>(p) == pattern::exchange);
  }
  CHECK(of<kolo::one_shot::allreduce>(65) == pattern::rounds);
}

TEST_CASE("one round from or to a root is one-way") {
  for (const int p : {2, 3, 8}) {
    CHECK(of<kolo::one_shot::broadcast>(p) == pattern::one_way);
    CHECK(of<kolo::one_shot::reduce>(p) == pattern::one_way);
    CHECK(of<kolo::one_shot::gather>(p) == pattern::one_way);
    CHECK(of<kolo::one_shot::scatter>(p) == pattern::one_way);
  }
}

TEST_CASE("reduce_scatter and allgather among all are there_and_back; on two ranks most algorithms are") {
  for (const int p : {2, 3, 8, 64}) CHECK(of<kolo::two_shot::allreduce>(p) == pattern::there_and_back);
  CHECK(of<kolo::ring::allreduce>(2) == pattern::there_and_back);
  CHECK(of<kolo::circulant::allreduce>(2) == pattern::there_and_back);
  CHECK(of<kolo::recursive_doubling::allreduce>(2) == pattern::exchange);
  CHECK(of<kolo::dissemination::barrier>(2) == pattern::exchange);
}

TEST_CASE("all other schedules run in rounds") {
  CHECK(of<kolo::ring::allreduce>(3) == pattern::rounds);
  CHECK(of<kolo::recursive_doubling::allreduce>(4) == pattern::rounds);
  CHECK(of<kolo::two_shot::reduce>(3) == pattern::rounds);
  CHECK(of<kolo::two_shot::broadcast>(3) == pattern::rounds);
  CHECK(of<kolo::chain::scan>(2) == pattern::rounds);
  CHECK(of<trade>(2) == pattern::rounds);
  CHECK(of<in_two_transfers>(3) == pattern::rounds);
  CHECK(of<crossed>(3) == pattern::rounds);
}

TEST_CASE("a message without blocks changes nothing") {
  CHECK(of<around>(2) == pattern::rounds);
  for (const std::size_t n : {1u, 100'000u})
    kolo::threads::run(2, [&](auto& comm) {
      std::vector<int> x(n, 10 + comm.rank());
      kolo::broadcast(comm, x, 0, around{});
      if (x != std::vector<int>(n, 10)) throw std::runtime_error{std::to_string(x[0])};
    });
}

TEST_CASE("a range of blocks without a peer changes no memory") {
  const auto gather_and_scan = [](auto& comm) {
    const std::vector<float> in(3, 10.0F + static_cast<float>(comm.rank()));
    std::vector<float> all(9, -1), sum(3, -1), narrow(3, -1);
    kolo::allgather(comm, in, all, in_turn{});
    kolo::scan(comm, in, sum, kolo::sum, along{});
    kolo::scan(comm, in, narrow, kolo::wire<kolo::bfloat16>(kolo::sum), along{});
    if (all != std::vector<float>{10, 10, 10, 11, 11, 11, 12, 12, 12}) throw std::runtime_error{"allgather"};
    const float expected[] = {10, 21, 33};
    if (sum != std::vector<float>(3, expected[comm.rank()])) throw std::runtime_error{std::to_string(sum[0])};
    if (narrow != sum) throw std::runtime_error{std::to_string(narrow[0])};
  };
  kolo::threads::run(3, gather_and_scan);
  kolo::virtual_time::run(3, {}, gather_and_scan);
}

TEST_CASE("data that arrives at a rank without a promised result does not change its memory") {
  CHECK(of<everywhere>(2) == pattern::rounds);
  for (const std::size_t n : {1u, 100'000u})
    kolo::threads::run(2, [&](auto& comm) {
      const std::vector<int> in(n, 10 + comm.rank());
      std::vector<int> out(n, -1);
      kolo::reduce(comm, in, out, kolo::sum, 0, everywhere{});
      if (out != std::vector<int>(n, comm.rank() == 0 ? 21 : -1)) throw std::runtime_error{std::to_string(out[0])};
    });
}

TEST_CASE("data that an exclusive scan sends to rank 0, which is promised none, goes to scratch memory") {
  for (const std::size_t n : {1u, 100'000u})
    kolo::threads::run(2, [&](auto& comm) {
      const std::vector<int> in(n, 10 + comm.rank());
      std::vector<int> out(n, -1);
      kolo::exclusive_scan(comm, in, out, kolo::sum, told_too_much{});
      if (out != std::vector<int>(n, comm.rank() == 1 ? 10 : -1)) throw std::runtime_error{std::to_string(out[0])};
    });
}

TEST_CASE("an exclusive scan has scratch memory for its result on rank 0 only") {
  kolo::collective_args args;
  args.collective = kolo::kind::exclusive_scan;
  args.schedule = {.blocks = 1, .rounds = 1};
  args.count = 10;
  args.compute.element_bytes = 4;
  const auto scratch = [&](int rank) {
    return kolo::detail::execute::block_state<>::bytes_needed(args, rank, 3, 1024).blocks;
  };
  CHECK((scratch(0) == 80 && scratch(1) == 40 && scratch(2) == 40));
}

TEST_CASE("a root in the table of a collective without root is ignored") {
  const auto add = kolo::arrival::mine_first;
  const kolo::synthesized swaps{{.collective = kolo::kind::allreduce,
                                 .ranks = 2,
                                 .blocks = 1,
                                 .rounds = 1,
                                 .reduce_rounds = 1,
                                 .root = 1,
                                 .messages = {{0, 0, 1, 0, 1, add}, {0, 1, 0, 0, 1, add}}}};
  kolo::threads::run(2, [&](auto& comm) {
    int x[] = {10 + comm.rank()};
    kolo::allreduce(comm, x, kolo::sum, swaps);
    if (x[0] != 21) throw std::runtime_error{std::to_string(x[0])};
  });
}
