// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One MPI communicator that carries the messages of many of kolo's: MPI has some 2000, and takes long to make one.
#pragma once

#include <kolo/mpi/local_liveness.hpp>
#include <kolo/mpi/nodes.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>

namespace kolo::inline KOLO_ABI::detail::mpi {

/// How the tags of a communicator differ from those of others on the same carrier: in their lowest bits. 0 bits: there
/// are no others.
struct tag_share {
  int bits = 0;
  int number = 0;

  bool is_in(int tag) const { return (tag & ((1 << bits) - 1)) == number; }
  int tag(std::uint64_t rest) const { return int(rest << bits) | number; }
};

/// The largest number of bits that every tag may have.
inline int tag_bits(MPI_Comm comm) {
  int* bound = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &found);
  return 31 - std::countl_zero(unsigned(found != 0 ? *bound : 32767) + 1u);
}

}  // namespace kolo::inline KOLO_ABI::detail::mpi

namespace kolo::inline KOLO_ABI::mpi {

/// A duplicate of a communicator, and the numbers by which its tags are divided. Each communicator that uses it has all
/// its ranks inside it, and a number that no other one has that shares a rank with it; so threads may use them side by
/// side. Several threads may call it at once.
class carrier {
 public:
  /// Collective over `all`, which stays the caller's.
  explicit carrier(MPI_Comm all) : comm_{detail::mpi::duplicate(all)} {
    int rank = 0, size = 0;
    detail::mpi::check(MPI_Comm_rank(comm_.get(), &rank), "MPI_Comm_rank");
    detail::mpi::check(MPI_Comm_size(comm_.get(), &size), "MPI_Comm_size", rank);
    nodes_ = detail::mpi::hosts_of(comm_, rank, size);
    liveness_ = detail::mpi::local_liveness{comm_, nodes_, rank};
    bits_ = std::min(most_bits, detail::mpi::tag_bits(comm_.get()) / 2 - 2);  // half of a tag encodes the message
    for (int n = 1; n < 1 << bits_; ++n) set(n, true);
    int threads = detail::mpi::thread_level();
    detail::mpi::check(MPI_Allreduce(MPI_IN_PLACE, &threads, 1, MPI_INT, MPI_MAX, comm_.get()), "MPI_Allreduce", rank);
    has_threads_ = threads == MPI_THREAD_MULTIPLE;
    detail::mpi::check(MPI_Comm_group(comm_.get(), &group_), "MPI_Comm_group", rank);
  }
  carrier(const carrier&) = delete;
  carrier& operator=(const carrier&) = delete;
  ~carrier() {
    if (detail::mpi::is_running()) MPI_Group_free(&group_);
  }

  /// The positions in this communicator of the ranks of `existing`, which has one group; empty if one of them is not in
  /// it. Not collective.
  std::vector<int> ranks_of(MPI_Comm existing) const {
    detail::mpi::expect_one_group(existing);
    MPI_Group group = MPI_GROUP_NULL;
    int size = 0;
    detail::mpi::check(MPI_Comm_group(existing, &group), "MPI_Comm_group");
    MPI_Group_size(group, &size);
    std::vector<int> theirs(static_cast<std::size_t>(size)), here(theirs.size());
    for (int r = 0; r < size; ++r) theirs[std::size_t(r)] = r;
    const int code = MPI_Group_translate_ranks(group, size, theirs.data(), group_, here.data());
    MPI_Group_free(&group);
    detail::mpi::check(code, "MPI_Group_translate_ranks");
    if (std::find(here.begin(), here.end(), MPI_UNDEFINED) != here.end()) here.clear();
    return here;
  }

  const detail::mpi::handle& communicator() const { return comm_; }
  const detail::transport::node_map& nodes() const { return nodes_; }
  const detail::mpi::local_liveness& liveness() const { return liveness_; }
  bool is_oversubscribed() const { return liveness_.is_oversubscribed(); }
  int bits() const { return bits_; }

  /// Collective over `existing`: claims a number that is free on all of its ranks; 0: there is none. Where two threads
  /// claim numbers for two communicators at once, ranks may claim one number for different communicators: then both try
  /// again, from the next number that they have not tried.
  int take_number(MPI_Comm existing) {
    int rank = 0;
    detail::mpi::check(MPI_Comm_rank(existing, &rank), "MPI_Comm_rank");
    for (;;) {
      auto offer = free_numbers(rank == 0);
      detail::mpi::check(MPI_Allreduce(MPI_IN_PLACE, offer.data(), int(offer.size()), MPI_UINT64_T, MPI_BAND, existing),
                         "MPI_Allreduce", rank);
      const int number = first_of(offer, int(offer.back()));
      if (number == 0) return 0;
      int is_taken = set(number, false) ? 1 : 0, by_all = 0;
      if (!has_threads_) return number;
      detail::mpi::check(MPI_Allreduce(&is_taken, &by_all, 1, MPI_INT, MPI_MIN, existing), "MPI_Allreduce", rank);
      if (by_all != 0) return number;
      if (is_taken != 0) put_back(number);
    }
  }
  void put_back(int number) { set(number, true); }

 private:
  static constexpr int most_bits = 11;  // MPICH has no more communicators
  using words = std::array<std::uint64_t, (1 << most_bits) / 64>;
  using offered = std::array<std::uint64_t, std::tuple_size_v<words> + 1>;  ///< and where to look first, as rank 0 says

  static std::uint64_t bit(int number) { return std::uint64_t{1} << number % 64; }

  /// Whether this changed it.
  bool set(int number, bool is_free) {
    const std::scoped_lock lock{mutex_};
    auto& word = free_[std::size_t(number / 64)];
    const bool was_free = (word & bit(number)) != 0;
    word = is_free ? word | bit(number) : word & ~bit(number);
    return was_free != is_free;
  }
  offered free_numbers(bool proposes_start) {
    const std::scoped_lock lock{mutex_};
    offered o;
    std::copy(free_.begin(), free_.end(), o.begin());
    o.back() = proposes_start ? std::uint64_t(next_++ % (1 << bits_)) : ~std::uint64_t{0};
    return o;
  }
  int first_of(const offered& free, int from) const {
    for (int i = 0; i < 1 << bits_; ++i) {
      const int number = (from + i) % (1 << bits_);
      if ((free[std::size_t(number / 64)] & bit(number)) != 0) return number;
    }
    return 0;
  }

  detail::mpi::handle comm_;
  MPI_Group group_ = MPI_GROUP_NULL;
  detail::transport::node_map nodes_;
  detail::mpi::local_liveness liveness_;
  bool has_threads_ = false;  ///< on some rank several may call MPI at once
  int bits_ = 0;
  std::mutex mutex_;
  words free_{};  ///< a bit for each number
  int next_ = 1;
};

}  // namespace kolo::inline KOLO_ABI::mpi

namespace kolo::inline KOLO_ABI::detail::mpi {

/// A communicator's share of a carrier: its ranks there and a number, which it returns unless messages may be under
/// way.
class carried_communicator {
 public:
  carried_communicator() = default;
  /// Collective over `existing`, whose ranks are `ranks` there.
  carried_communicator(std::shared_ptr<kolo::mpi::carrier> on, MPI_Comm existing, std::vector<int> ranks)
      : on_{std::move(on)}, ranks_{std::move(ranks)}, existing_{existing} {
    expect_one_group(existing);
    if (ranks_.empty()) throw error{errc::invalid_argument, "the carrier's communicator has not all ranks of this one"};
    if (ranks_.size() > 1 && (number_ = on_->take_number(existing)) == 0)
      throw error{errc::out_of_resources, "the carrier has no number left for another communicator"};
  }
  carried_communicator(carried_communicator&& other) noexcept
      : on_{std::move(other.on_)},
        ranks_{std::move(other.ranks_)},
        existing_{other.existing_},
        number_{std::exchange(other.number_, 0)} {}
  carried_communicator& operator=(carried_communicator&&) = delete;
  ~carried_communicator() {
    if (number_ != 0) on_->put_back(number_);
  }

  const kolo::mpi::carrier* on() const { return on_.get(); }
  const std::vector<int>& ranks() const { return ranks_; }
  MPI_Comm existing() const { return existing_; }
  tag_share of_tags() const { return on_ ? tag_share{on_->bits(), number_} : tag_share{}; }
  void keep() { number_ = 0; }

 private:
  std::shared_ptr<kolo::mpi::carrier> on_{};
  std::vector<int> ranks_{};
  MPI_Comm existing_ = MPI_COMM_NULL;
  int number_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::mpi
