// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The language of all algorithms: pure functions (rank, size, round) -> the blocks that the rank sends and receives.
#pragma once

#include <kolo/core/kind.hpp>
#include <kolo/core/rank.hpp>

#include <concepts>
#include <stdexcept>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// What is done with arriving blocks.
enum class arrival {
  replace,       ///< theirs
  mine_first,    ///< op(mine, theirs)
  theirs_first,  ///< op(theirs, mine)
  in_rank_order  ///< mine and all arrivals of this transfer, combined from the left in the order of their ranks
};

/// The missing peer of a transfer that only sends, or only receives.
inline constexpr int nobody = -1;

/// One rank, or a circular range of ranks: first, first + 1, ... modulo the number of ranks. With a `cycle`, the range
/// consists of ranks that differ from `first` in one digit only: the one of weight `stride`, which has `cycle` values.
struct peer_range {
  int first = nobody;
  int count = 0;
  int stride = 1;
  int cycle = 0;

  constexpr peer_range() = default;
  constexpr peer_range(int rank) : first{rank}, count{rank == nobody ? 0 : 1} {}  // NOLINT: a rank is a range of one
  constexpr peer_range(int first_rank, int number) : first{first_rank}, count{number} {}
  constexpr peer_range(int first_rank, int number, int weight, int values)
      : first{first_rank}, count{number}, stride{weight}, cycle{values} {}

  constexpr int at(int i, int size) const { return cycle == 0 ? mod(first + i, size) : on_circle(i); }
  /// The index of `rank` in the range; `nobody` if the range does not contain it.
  constexpr int index_of(int rank, int size) const {
    if (count == 0) return nobody;
    const int i = cycle == 0 ? mod(rank - first, size) : position_on_circle(rank);
    return i < count ? i : nobody;
  }
  /// The index of the lowest rank in the range; ranks ascend from there, circularly.
  constexpr int lowest(int size) const {
    const int i = count == 0 ? 0 : length(size) - digit(size);
    return i < count ? i : 0;
  }
  /// Whether all ranks of the range are in 0 ... size - 1, and none is in it twice.
  constexpr bool is_sound(int size) const {
    if (count <= 0) return count == 0;
    if (first < 0 || first >= size || stride < 1 || cycle < 0 || (cycle == 0 && stride != 1)) return false;
    const int n = length(size);
    return count <= n && first + (n - 1 - digit(size)) * stride < size;
  }
  friend constexpr bool operator==(const peer_range&, const peer_range&) = default;

 private:
  [[gnu::noinline]] constexpr int on_circle(int i) const {
    const int d = digit(cycle);
    return first + (mod(d + i, cycle) - d) * stride;
  }
  [[gnu::noinline]] constexpr int position_on_circle(int rank) const {
    const int i = mod(rank / stride - first / stride, cycle);  // steps along the circle, if the rank is on it
    return on_circle(i) == rank ? i : nobody;
  }
  constexpr int length(int size) const { return cycle > 0 ? cycle : size; }
  constexpr int digit(int size) const { return first / stride % length(size); }
};

/// `count` blocks, in runs of `run` neighbours whose first blocks are `stride` apart, which may be negative. Indices
/// are taken modulo the number of blocks, or, with a `cycle`, within the aligned group of `cycle` blocks in which the
/// range begins. With several peers, the blocks of each next peer begin `per_peer` further on.
struct block_range {
  int first = 0;
  int count = 0;
  int stride = 1;
  int run = 1;
  int per_peer = 0;
  int cycle = 0;
  friend constexpr bool operator==(const block_range&, const block_range&) = default;
};

/// One message to each rank of `to`, and one from each rank of `from`, in one round. The i-th block sent arrives as the
/// i-th block of the receiver's `receive`. If arrivals are combined, all peers send contributions to the same blocks:
/// `receive.per_peer` is 0. A transfer whose only peer, in both directions, is the rank itself combines two local
/// blocks (`replace` copies one); in any other transfer a rank is not its own peer.
struct transfer {
  peer_range to{};
  block_range send{};
  peer_range from{};
  block_range receive{};
  arrival then = arrival::replace;
};

/// The transfers of one rank in one round: at most four; none if it is idle.
class step {
 public:
  static constexpr int capacity = 4;

  constexpr step() = default;
  constexpr step(const transfer& only) { *this += only; }  // NOLINT: one transfer is a step

  constexpr step& operator+=(const transfer& t) {
    if (count_ == capacity)
      throw std::length_error("kolo: a step has at most four transfers: give the peers as a range");
    entries_[count_++] = entry{t};
    return *this;
  }

 private:
  union entry {  // most steps have one transfer; the other entries are not initialised
    char empty;
    transfer it;
    constexpr entry() {
      if (std::is_constant_evaluated()) empty = 0;  // otherwise GCC clears all entries
    }
    constexpr explicit entry(const transfer& t) : it{t} {}
  };

 public:
  /// Iterates over the transfers of a step.
  class iterator {
   public:
    constexpr explicit iterator(const entry* p) : entry_{p} {}
    constexpr const transfer& operator*() const { return entry_->it; }
    constexpr const transfer* operator->() const { return &entry_->it; }
    constexpr iterator& operator++() { return ++entry_, *this; }
    friend constexpr bool operator==(const iterator&, const iterator&) = default;

   private:
    const entry* entry_;
  };
  constexpr iterator begin() const { return iterator{entries_}; }
  constexpr iterator end() const { return iterator{entries_ + count_}; }
  constexpr int size() const { return count_; }
  constexpr const transfer& operator[](int i) const { return entries_[i].it; }
  /// The index of `t`, one of this step's transfers.
  constexpr int index_of(const transfer& t) const {
    int i = 0;
    while (&entries_[i].it != &t) ++i;
    return i;
  }

 private:
  entry entries_[capacity];
  int count_ = 0;
};

/// A schedule is a pure value. For a number of ranks p it gives the number of blocks that the vector is cut into, the
/// number of rounds, and the step of rank r in round k.
///
/// Laws (`kolo::verify` proves them; a schedule that breaks one of them must not run):
///
/// * matched: r receives from s in round k if and only if s sends to r in round k, the same number of blocks and the
///   same blocks (the i-th scratch block counts as block i mod blocks(p); in an alltoall, block r of set 0 of s is
///   block s of set 1 of r); at most one message goes from s to r in a round
/// * before: every send reads the state before the round; arrivals are applied at its end
/// * separate: no block is written twice in a round, except by the arrivals of one transfer that are combined; a block
///   that is both sent and received in a round is sent and received by one transfer, as part of the same range; a
///   barrier's block is empty, and exempt from this law
/// * complete: at the end every block that the collective requires holds each contribution exactly once, with equal
///   expression trees on all ranks (up to swapped children: the operator commutes)
/// * ordered: if `S::ordered`: contributions are combined in the order of their ranks, so the operator need not commute
/// * finished: nothing is combined in round reduce_rounds or later
/// * relative: if `S::relative`: the step of rank r is the step of rank 0 with all ranks moved by r around the circle,
///   and all blocks too if there are p of them. (One block, or p; no scratch.)
///
/// Optional members, with their defaults in brackets:
///
/// * `static constexpr bool ordered` (false): see the law
/// * `static constexpr bool relative` (false): see the law; a simulation then runs one rank for all
/// * `bool supports(int p)` (true): whether it supports this number of ranks
/// * `int scratch(int p)` (0): the number of additional blocks, blocks(p), blocks(p) + 1, ..., for intermediate values;
///   block blocks(p) + i is as long as block i mod blocks(p). If a kind has two sets of blocks, scratch begins after
///   the second (`block_sets`). An alltoall with scratch takes equal parts only
/// * `int reduce_rounds(int p)` (rounds(p)): from this round on nothing is combined, so what the operator does once at
///   the end (`average` divides) is fused into the last combination
/// * `int root` (0): where a rooted kind begins or ends. A call sets it, and does not rotate the ranks
/// * `int key()` (none): for a schedule that consists of one number, that number: it alone distinguishes the schedule
///   from others of its type. Calls with it are cached as those with a schedule without members are
/// * `int source(int r, int p)` (none): for a permutation: whose blocks rank r ends with; the proof checks it
///
/// A rooted kind without the member `root` is written for root 0, and a call rotates ranks and parts. Schedules are
/// never called for a single rank. Ranges of peers begin at a rank in 0 ... p - 1.
template <class S>
concept Schedule = std::copyable<S> && requires(const S s, int i) {
  requires std::same_as<std::remove_cv_t<decltype(S::collective)>, kind>;
  { s.blocks(i) } -> std::same_as<int>;
  { s.rounds(i) } -> std::same_as<int>;
  { s.at(i, i, i) } -> std::convertible_to<step>;
};

/// A schedule of this kind of collective.
template <class S, kind K>
concept ScheduleFor = Schedule<S> && S::collective == K;

/// Whether S declares that it combines in the order of the ranks; false by default.
template <Schedule S>
constexpr bool is_ordered() {
  if constexpr (requires { S::ordered; }) return S::ordered;
  else return false;
}

/// Whether S declares the law `relative`; false by default.
template <Schedule S>
constexpr bool is_relative() {
  if constexpr (requires { S::relative; }) return S::relative;
  else return false;
}

/// Whether the schedule runs on this number of ranks; true by default.
constexpr bool supports(const Schedule auto& s, int size) {
  if constexpr (requires { s.supports(size); }) return s.supports(size);
  else return true;
}

namespace detail::schedule {

/// A schedule that takes a root.
template <class S>
concept AnyRoot = Schedule<S> && requires(S s) {
  { s.root = 0 } -> std::same_as<int&>;
};

/// A schedule whose only parameter is a number.
template <class S>
concept Keyed = Schedule<S> && sizeof(S) == sizeof(int) && requires(const S s) {
  { s.key() } -> std::same_as<int>;
};

constexpr int scratch_blocks(const Schedule auto& s, int size) {
  if constexpr (requires { s.scratch(size); }) return s.scratch(size);
  else return 0;
}

constexpr int reduce_rounds(const Schedule auto& s, int size) {
  if constexpr (requires { s.reduce_rounds(size); }) return s.reduce_rounds(size);
  else return s.rounds(size);
}

constexpr int root_of(const Schedule auto& s) {
  if constexpr (requires { s.root; }) return s.root;
  else return 0;
}

}  // namespace detail::schedule

}  // namespace kolo::inline KOLO_ABI
