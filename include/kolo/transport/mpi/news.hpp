// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the ranks of an MPI communicator tell each other of a failure, and agree upon the first one.
#pragma once

#include <kolo/transport/mpi/calls.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline v0::mpi::detail {

/// Over a communicator of its own, or with a tag of its own on a carrier, so that nothing else is disturbed. A rank that fails claims that it was the first, to everybody; rank 0
/// decides which claim that was, and tells everybody. Where rank 0 says nothing within `patience_for_rank_0` (it computes, or is dead),
/// a rank goes by the claims that it has heard: by that of the lowest rank.
class news {
 public:
  static constexpr std::chrono::milliseconds patience_for_rank_0{500};

  news() = default;
  /// `places`: where the ranks are in `comm`; none: they are all of it.
  news(handle comm, int rank, int size, int own_tag = tag, std::vector<int> places = {})
      : comm_{std::move(comm)}, rank_{rank}, size_{size}, tag_{own_tag}, places_{std::move(places)} {}
  news(news&&) noexcept = default;
  news& operator=(news&&) noexcept = default;
  ~news() {
    if (comm_.get() == MPI_COMM_NULL || (!first_ && letters_.empty())) return;
    comm_.abandon();
    if (is_running()) empty();
    for (auto& l : letters_)
      if (!is_running() || !has_left(*l)) static_cast<void>(l.release());  // MPI still reads it
  }

  const failure* failed() const { return first_ ? &*first_ : nullptr; }

  /// Where groups are made, with other tags than `tag`: Open MPI sends, for that, messages which a probe of this communicator's sees.
  const handle& communicator() const { return comm_; }
  static constexpr int tag = 0;

  /// Waits for nobody.
  void claim(const failure& f) {
    if (first_) return;
    if (rank_ == 0) return decide(f);
    hear_claim(rank_, f);
    tell({f, false});
  }

  const failure& fail(const failure& f) {
    listen();
    if (!first_ && claim_) settle();
    if (!first_) claim(f);
    if (!first_) settle();
    return *first_;
  }

  /// The first failure, if anybody has said that there is one.
  const failure* hear() {
    if (first_) return &*first_;
    listen();
    if (!first_ && claim_) settle();
    return failed();
  }

 private:
  struct statement {
    failure text;
    bool is_decided;
  };
  struct letter {
    statement said;
    std::vector<MPI_Request> under_way;
  };
  struct claim_of {
    int rank;
    failure text;
  };

  /// What somebody has said, if anybody has. On a carrier that may be news of an earlier communicator, from a rank that is none of this one.
  bool next(statement& s, int& from) {
    MPI_Status status;
    int there = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag_, comm_.get(), &there, &status) != MPI_SUCCESS || there == 0) return false;
    const auto place = std::find(places_.begin(), places_.end(), status.MPI_SOURCE);
    from = places_.empty() ? status.MPI_SOURCE : place == places_.end() ? -1 : static_cast<int>(place - places_.begin());
    return MPI_Recv(&s, sizeof s, MPI_BYTE, status.MPI_SOURCE, tag_, comm_.get(), MPI_STATUS_IGNORE) == MPI_SUCCESS;
  }
  void listen() {
    int from = -1;
    for (statement s; !first_ && next(s, from);) {
      if (from < 0) continue;
      if (s.is_decided) first_ = s.text;
      else hear_claim(from, s.text);
    }
    if (!first_ && claim_ && rank_ == 0) decide(claim_->text);
  }
  void empty() {
    int from = -1;
    for (statement s; next(s, from);) continue;
  }
  void hear_claim(int rank, const failure& f) {
    if (!claim_ || rank < claim_->rank) claim_ = claim_of{rank, f};
  }
  void decide(const failure& f) {
    first_ = f;
    tell({f, true});
  }
  void settle() {
    for (const auto begin = std::chrono::steady_clock::now(); !first_ && std::chrono::steady_clock::now() - begin < patience_for_rank_0; listen())
      std::this_thread::yield();
    if (!first_) first_ = claim_->text;
  }

  /// Those that cannot be reached any more are not told.
  void tell(const statement& s) {
    auto& l = *letters_.emplace_back(std::make_unique<letter>());
    l.said = s;
    for (int r = 0; r < size_; ++r) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int place = places_.empty() ? r : places_[static_cast<std::size_t>(r)];
      if (r != rank_ && MPI_Isend(&l.said, sizeof s, MPI_BYTE, place, tag_, comm_.get(), &request) == MPI_SUCCESS) l.under_way.push_back(request);
    }
  }
  static bool has_left(letter& l) {
    int all = 0;
    return MPI_Testall(static_cast<int>(l.under_way.size()), l.under_way.data(), &all, MPI_STATUSES_IGNORE) == MPI_SUCCESS && all != 0;
  }

  handle comm_;
  int rank_ = 0, size_ = 1, tag_ = tag;
  std::vector<int> places_{};
  std::optional<failure> first_{};
  std::optional<claim_of> claim_{};
  std::vector<std::unique_ptr<letter>> letters_;
};

}  // namespace kolo::inline v0::mpi::detail
