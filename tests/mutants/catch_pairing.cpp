// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in slots that exchange, reply and reference: their laws on a few threads, and buffers that end while a peer may read them.
// built with others: ranks
#include <algorithm>
#include <atomic>
#include <cstring>

#include "laws/round_trip_laws.hpp"

namespace {

std::atomic<bool> good{true};

template <class Law>
void law(int ranks, Law holds) {
  kolo::threads::run(ranks,
                     [&](auto& comm) {
                       if (!holds(comm.transport()).empty()) good = false;
                     },
                     {.timeout = std::chrono::seconds{5}, .slot_bytes = 128});
}

/// Rank 0, and rank 1 in the same process, as which the test acts.
template <class Memory>
struct pair_of_ranks {
  explicit pair_of_ranks(std::size_t slot_bytes)
      : shape{2, {.slot_bytes = slot_bytes}},
        region{transport::initialise(memory, shape)},
        comm{memory, region, shape, 0},
        peer{memory, region, shape, 1} {}

  using transport = kolo::detail::shm::slot_transport<Memory>;
  kolo::detail::shm::region_shape shape;
  Memory memory{};
  std::uint64_t region;
  kolo::communicator<transport> comm;
  transport peer;
};

/// An operation fails after its rank has referenced its buffer: the peer must not get the piece any more.
void broken_off() {
  pair_of_ranks<kolo::detail::shm::private_mapping> ranks{256};
  auto& comm = ranks.comm;
  auto& peer = ranks.peer;
  std::vector<int> x(128), all(256);
  try {
    kolo::allgather(comm, x, all, {.timeout = std::chrono::milliseconds{1}});
    good = false;
  } catch (const kolo::error&) {
  }
  if (!peer.peek(0).data || peer.claim(0).data) good = false;
}

/// The peer replies to four pieces before rank 0 polls: a reply must stay in its slot until it has been read. With processes' memory, so that the vector itself
/// cannot be referenced.
void answers_stay() {
  pair_of_ranks<kolo::detail::shm::shared_mapping> ranks{sizeof(int)};
  auto& comm = ranks.comm;
  auto& peer = ranks.peer;
  std::vector<int> x(12, 5);  // six of each rank
  auto request = kolo::start_allreduce(comm, x, kolo::sum, kolo::two_shot{});
  request.test();
  const auto tag = peer.peek(0).tag;
  for (int sent = 0, taken = 0; taken < 6 || sent < 6; request.test()) {
    for (int k = 0; k < 4 && taken < 6 && peer.peek(0).data; ++k) {
      const int answer = 100 + taken++;
      std::memcpy(peer.peek(0).back, &answer, sizeof answer);
      peer.release(0);
    }
    for (; sent < 6 && peer.reserve(0); ++sent) {
      std::memset(peer.reserve(0), 0, sizeof(int));
      peer.commit(0, sizeof(int), tag);
    }
  }
  if (!request.test()) good = false;
  for (int k = 0; k < 6; ++k)
    if (x[static_cast<std::size_t>(k)] != 5 || x[static_cast<std::size_t>(k) + 6] != 100 + k) good = false;
}

/// The peer sends everything and receives nothing: rank 0 has all that it needs, but has not sent everything.
void sends_everything() {
  pair_of_ranks<kolo::detail::shm::shared_mapping> ranks{sizeof(int)};
  auto& comm = ranks.comm;
  auto& peer = ranks.peer;
  std::vector<int> x(8, 5), y(8);
  auto request = kolo::start_allreduce(comm, x, y, kolo::sum, kolo::one_shot{});
  request.test();
  const auto tag = peer.peek(0).tag;
  for (int sent = 0; sent < 8; request.test())
    for (; sent < 8 && peer.reserve(0); ++sent) {
      std::memset(peer.reserve(0), 0, sizeof(int));
      peer.commit(0, sizeof(int), tag);
    }
  if (request.test()) good = false;
  for (int taken = 0; taken < 8; ++taken, request.test()) {
    if (!peer.peek(0).data) good = false;
    peer.release(0);
  }
  if (!request.test() || y != std::vector<int>(8, 5)) good = false;
}

/// The peer reads a view whose runs are in two regions.
void runs_in_two_regions() {
  pair_of_ranks<kolo::detail::shm::shared_mapping> ranks{4096};
  constexpr std::size_t n = 20'000;
  const auto first = ranks.memory.map(ranks.memory.reserve(n * sizeof(int)), n * sizeof(int)),
             second = ranks.memory.map(ranks.memory.reserve(n * sizeof(int)), n * sizeof(int));
  std::vector<std::span<int>> parts;
  for (auto* const region : {first.get(), second.get()}) parts.emplace_back(reinterpret_cast<int*>(region), n);
  std::fill_n(parts[0].begin(), n, 1);
  std::fill_n(parts[1].begin(), n, 2);
  auto request = kolo::start_broadcast(ranks.comm, kolo::bucket{std::span{parts}}, 0, kolo::one_shot{});
  std::size_t read = 0;
  for (int looks = 0; looks < 10'000 && !request.test(); ++looks)
    for (; ranks.peer.peek(0).data; ranks.peer.release(0)) {
      const auto piece = ranks.peer.claim(0);
      for (std::size_t at = 0; at < piece.bytes; at += sizeof(int), ++read) {
        int value = 0;
        std::memcpy(&value, piece.data + at, sizeof value);
        if (value != (read < n ? 1 : 2)) good = false;
      }
    }
  if (read != 2 * n) good = false;
}

/// The peer reads pieces in two regions alternately, at several places of each.
void regions_by_turns() {
  pair_of_ranks<kolo::detail::shm::shared_mapping> ranks{256};
  auto& sender = ranks.comm.transport();
  auto& memory = ranks.memory;
  const std::shared_ptr<std::byte> regions[] = {memory.map(memory.reserve(20'000), 20'000),
                                                memory.map(memory.reserve(20'000), 20'000)};
  for (std::size_t k = 0; k < 20; ++k) {
    auto* const from = regions[k / 2 % 2].get() + 1000 * (k % 3);
    std::fill_n(from, 256, static_cast<std::byte>(k + 1));
    if (!sender.reserve(1)) good = false;
    sender.commit(1, 256, 7, {sender.make_remote_ref(from, 256), {}});
    if (!ranks.peer.peek(0).data) good = false;
    const auto piece = ranks.peer.claim(0);
    if (!piece.data || std::memcmp(piece.data, from, 256) != 0) good = false;
    ranks.peer.release(0);
  }
}

/// The slots of a subset are sized by its own number of ranks.
void memory_of_many() {
  kolo::detail::shm::region_shape many{64, {}};
  many.cache_bytes = 1 << 20;
  many = many.with_ranks(64);
  if (many.bytes() > 64'000'000 || many.slot_bytes < 4096 || many.subset(2).slot_bytes != 65536) good = false;
}

}  // namespace

int main() {
  memory_of_many();
  if (!laws::round_trips_share_a_buffer().empty()) good = false;
  if (!laws::rings_keep_unread_pieces().empty()) good = false;
  if (!laws::pieces_lie_in_fetched_slots().empty()) good = false;
  runs_in_two_regions();
  regions_by_turns();
  for (const int p : {2, 3}) {
    law(p, laws::exchanges_need_no_release);
    law(p, laws::boards_are_read_by_all);
    law(p, laws::replies_come_back);
    law(p, laws::spare_buffers_pass_to_who_reads_them);
    law(p, laws::references_are_read_and_replied);
  }
  law(2, laws::cancelled_pieces_are_not_read);
  broken_off();
  answers_stay();
  sends_everything();
  return good ? 0 : 1;
}
