// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole calls over the explored transport: the small-message path, streams, rounds, the barrier, and communicators that are made and left.
#pragma once

#include "explore/ranks.hpp"

#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/schedule/catalogue.hpp>
#include <kolo/shm/symmetric.hpp>

#include <array>
#include <vector>

namespace explore {

using communicator = kolo::communicator<transport>;

/// Each rank calls `what` with its communicator.
template <class F>
struct ranks_do : group {
  ranks_do(int size, F f, bool sleep = false, std::size_t slot_bytes = 32) : group{size, 1, slot_bytes}, what{f} {
    sleeps = sleep;
  }
  void rank(int r) override { what(communicator(r)); }
  F what;
};

/// Allreduce of n numbers, a few times.
template <class Algorithm>
auto sums(Algorithm algorithm, std::size_t n, int times = 1) {
  return [=](auto& comm) {
    auto& x = *new std::vector<int>(n);
    for (int k = 1; k <= times; ++k) {
      for (auto& e : x) e = k << 4 * comm.rank();
      kolo::allreduce(comm, x, kolo::sum, algorithm);
      for (const auto& e : x) require(e == (comm.size() == 2 ? 0x11 : 0x111) * k, "a sum is wrong");
    }
  };
}

/// Small calls of different kinds in sequence: a rank that sends in one may not have received from the other rank yet.
inline auto mixture = [](auto& comm) {
  auto& x = *new std::vector<int>(1, 1);
  kolo::allreduce(comm, x, kolo::sum, kolo::one_shot{});
  kolo::broadcast(comm, x, 1, kolo::one_shot{});
  kolo::allreduce(comm, x, kolo::sum, kolo::one_shot{});
  require(x[0] == comm.size() * comm.size(), "a sum is wrong");
};

/// Ragged alltoall of one number per peer, besides a part that rank 0 has for itself, which is longer than a slot.
inline auto beside_a_long_part = [](auto& comm) {
  const auto me = static_cast<std::size_t>(comm.rank()), own = me == 0 ? std::size_t{9} : 0;
  std::array<std::size_t, 2> counts{1, 1};
  counts[me] = own;
  auto& in = *new std::vector<int>(own + 1, 5 + comm.rank());
  auto& out = *new std::vector<int>(own + 1);
  kolo::alltoall(comm, in, out, counts, counts, kolo::one_shot{});
  require(out[me == 0 ? own : 0] == 6 - comm.rank() && (own == 0 || out[0] == 5), "a part is wrong");
};

/// What a rank wrote before the barrier is visible after it, without other synchronisation.
struct barriers : group {
  barriers(int size, bool sleep) : group{size, 1} { sleeps = sleep; }
  void begin() override { group::begin(), written = reinterpret_cast<int*>(take(sizeof(int) * most_ranks)); }
  void rank(int r) override {
    auto& comm = communicator(r);
    written[r] = 7;
    kolo::barrier(comm, kolo::one_shot{});
    for (int k = 0; k < ranks; ++k) require(written[k] == 7, "a rank has not arrived");
  }
  int* written = nullptr;
};

/// Makes a communicator of both ranks in reverse order.
inline auto splitting = [](auto& comm) {
  auto& part = *new auto(comm.split(0, -comm.rank()));
  require(part.rank() == 1 - comm.rank(), "the order of the keys is not kept");
};

/// Makes a communicator as split does, but with one of its three exchanges, and uses it.
struct making : group {
  making() : group{2, 1} {}
  void rank(int r) override {
    auto& w = wire(r);
    std::array<std::uint64_t, 2> regions{};
    if (r == 0) regions[0] = transport::initialise(memory, shape);
    kolo::detail::transport::small_allgather(w, regions.data(), sizeof regions[0], "split");
    auto& part = *new transport{memory, regions[0], shape, r};
    *reinterpret_cast<int*>(part.exchange_slot(1 - r)) = 100 + r;
    part.post_exchange(1 - r, sizeof(int), 0);
    require(await(part, 1 - r, [&] { return found{part.peek_exchange(1 - r)}; }).value() == 101 - r,
            "an exchange is not what was sent");
  }
};

/// Makes symmetric memory, writes that of the peer, and leaves.
inline auto sharing = [](auto& comm) {
  auto halo = kolo::symmetric<int>(comm, 1);
  halo.of(1 - comm.rank())[0] = 5;
};

inline bool all_collectives() {
  constexpr bool sleep = true;
  return holds("small messages: 2 calls", ranks_do{2, sums(kolo::one_shot{}, 1, 2)}) &&
         holds("small messages: 1 call, asleep", ranks_do{2, sums(kolo::one_shot{}, 1), sleep}) &&
         holds("small messages: 1 call of 3 ranks", ranks_do{3, sums(kolo::one_shot{}, 1)}) &&
         holds("small messages: allreduce, broadcast, allreduce", ranks_do{2, mixture}) &&
         holds("streams: there and back", ranks_do{2, sums(kolo::two_shot{}, 2)}) &&
         holds("streams: there and back, by reference", ranks_do{2, sums(kolo::two_shot{}, 64), !sleep, 128}) &&
         holds("streams: alltoall beside a long own part", ranks_do{2, beside_a_long_part}) &&
         holds("rounds: recursive doubling of 3 ranks", ranks_do{3, sums(kolo::recursive_doubling{}, 1)}) &&
         holds("barrier of 2 ranks, asleep", barriers{2, sleep}) && holds("barrier of 3 ranks", barriers{3, !sleep}) &&
         holds("symmetric memory, made and left", ranks_do{2, sharing}) &&
         holds("a region, made, announced and used", making{});
}

/// Explorations that take longer than a test should.
inline bool all_long() { return holds("a whole split", ranks_do{2, splitting}); }

}  // namespace explore
