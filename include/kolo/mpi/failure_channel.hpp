// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the ranks of an MPI communicator notify each other of a failure, and agree on the first one.
#pragma once

#include <kolo/mpi/handles.hpp>
#include <kolo/transport/who_is_late.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::mpi {

/// Over a communicator of its own, or with a tag of its own on a carrier, so that it disturbs no other messages. A rank
/// that fails proposes its failure as the first, to all ranks; rank 0 decides which proposal was first, and sends the
/// decision to all. Without a decision within `wait_for_rank_0` (rank 0 computes, or is dead), a rank adopts the
/// proposal of the lowest rank among those that it has received.
///
/// And a roll call: a rank whose deadline has passed asks all others whether they wait, and for which rank. A rank that
/// waits answers, since it polls; one that computes, or is stopped, does not.
class failure_channel {
 public:
  static constexpr std::chrono::milliseconds wait_for_rank_0{500};

  failure_channel() = default;
  /// `comm_ranks`: where the ranks are in `comm`; none: they are all of it.
  failure_channel(handle comm, int rank, int size, int own_tag = tag, std::vector<int> comm_ranks = {})
      : comm_{std::move(comm)}, rank_{rank}, size_{size}, tag_{own_tag}, comm_ranks_{std::move(comm_ranks)} {}
  failure_channel(failure_channel&&) noexcept = default;
  failure_channel& operator=(failure_channel&&) noexcept = default;
  ~failure_channel() {
    if (comm_.get() == MPI_COMM_NULL) return;
    if (is_running()) drop_statements(), forget_what_has_left();
    if (!first_ && pending_.empty()) return;
    comm_.abandon();
    for (auto& l : pending_) static_cast<void>(l.release());  // MPI still reads it
  }

  const failure* failed() const { return first_ ? &*first_ : nullptr; }

  /// Where groups are made, with other tags than `tag`: Open MPI sends, for that, messages which a probe of this
  /// communicator's sees.
  const handle& communicator() const { return comm_; }
  static constexpr int tag = 0;

  /// Does not wait.
  void propose(const failure& f) {
    if (first_) return;
    if (rank_ == 0) return decide(f);
    consider(rank_, f);
    broadcast({f, meaning::proposal});
  }

  const failure& fail(const failure& f) {
    if (!poll()) propose(f);
    if (!first_) adopt_decision();
    return *first_;
  }

  /// Does not notify the other ranks: MPI is finalized.
  void fail_locally(const failure& f) {
    if (!first_) first_ = f;
  }

  /// Asks every rank which rank it waits for. Earlier answers are dropped.
  void call_the_roll() {
    signs_.assign(std::size_t(size_), {transport::sign_of_life::silent});
    broadcast({{}, meaning::question});
  }
  /// The answers since then, of each rank.
  const std::vector<transport::sign_of_life>& signs() const { return signs_; }
  /// This rank waits, as `mine` says: answers the ranks that have asked.
  void answer(const transport::sign_of_life& mine) {
    for (const int r : std::exchange(asked_by_, {})) send({{}, meaning::waits, mine}, r, r + 1);
  }

  /// The first failure, if any rank has reported one.
  const failure* poll() {
    if (first_) return &*first_;
    receive_statements();
    if (!first_ && proposal_) adopt_decision();
    return failed();
  }

 private:
  enum class meaning { proposal, decision, question, waits };
  struct statement {
    failure text;
    meaning is;
    transport::sign_of_life sign{};  ///< if it waits
    int sender = MPI_UNDEFINED;      ///< its rank in MPI_COMM_WORLD
  };
  struct pending_send {
    statement what;
    std::vector<MPI_Request> in_flight;
  };
  struct proposal_of {
    int rank;
    failure text;
  };

  /// The next message, if one has arrived. It may be of an earlier communicator, from a rank that is not in this one:
  /// then `from` is negative. A carrier's number is used again, and MPI gives a new communicator that of a freed one.
  bool next(statement& s, int& from) {
    MPI_Status status;
    int there = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag_, comm_.get(), &there, &status) != MPI_SUCCESS || there == 0) return false;
    const auto found = std::find(comm_ranks_.begin(), comm_ranks_.end(), status.MPI_SOURCE);
    from = comm_ranks_.empty() ? status.MPI_SOURCE : found == comm_ranks_.end() ? -1 : int(found - comm_ranks_.begin());
    if (MPI_Recv(&s, sizeof s, MPI_BYTE, status.MPI_SOURCE, tag_, comm_.get(), MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return false;
    const int known = rank_in_world(comm_.get(), status.MPI_SOURCE);  // of another world there is none
    if (known != MPI_UNDEFINED && known != s.sender) from = -1;
    return true;
  }
  void receive_statements() {
    int from = -1;
    for (statement s; !first_ && next(s, from);)
      if (from >= 0) process(from, s);
    if (!first_ && proposal_ && rank_ == 0) decide(proposal_->text);
  }
  void drop_statements() {
    int from = -1;
    for (statement s; next(s, from);) continue;
  }
  void process(int from, const statement& s) {
    switch (s.is) {
      case meaning::proposal: return consider(from, s.text);
      case meaning::decision: first_ = s.text; return;
      case meaning::question: asked_by_.push_back(from); return;
      case meaning::waits:
        if (!signs_.empty() && s.sign.awaits != from)  // who waits for itself waits for nobody else
          signs_[std::size_t(from)] = s.sign;
    }
  }
  void consider(int rank, const failure& f) {
    if (!proposal_ || rank < proposal_->rank) proposal_ = proposal_of{rank, f};
  }
  void decide(const failure& f) {
    first_ = f;
    broadcast({f, meaning::decision});
  }
  void adopt_decision() {
    for (const auto begin = std::chrono::steady_clock::now();
         !first_ && std::chrono::steady_clock::now() - begin < wait_for_rank_0; receive_statements())
      std::this_thread::yield();
    if (!first_) first_ = proposal_->text;
  }

  /// Ranks that cannot be reached are skipped.
  void broadcast(const statement& s) { send(s, 0, size_); }
  /// To the ranks from `first` on and before `end`, but not to itself.
  void send(const statement& s, int first, int end) {
    forget_what_has_left();
    auto& l = *pending_.emplace_back(std::make_unique<pending_send>());
    l.what = s;
    l.what.sender = rank_in_world(MPI_COMM_SELF, 0);
    for (int r = first; r < end; ++r) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int comm_rank = comm_ranks_.empty() ? r : comm_ranks_[std::size_t(r)];
      if (r != rank_ && MPI_Isend(&l.what, sizeof s, MPI_BYTE, comm_rank, tag_, comm_.get(), &request) == MPI_SUCCESS)
        l.in_flight.push_back(request);
    }
  }
  void forget_what_has_left() {
    std::erase_if(pending_, [](const auto& l) { return has_left(*l); });
  }
  static bool has_left(pending_send& l) {
    int all = 0;
    return MPI_Testall(int(l.in_flight.size()), l.in_flight.data(), &all, MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
           all != 0;
  }

  handle comm_;
  int rank_ = 0, size_ = 1, tag_ = tag;
  std::vector<int> comm_ranks_{};
  std::optional<failure> first_{};
  std::optional<proposal_of> proposal_{};
  std::vector<std::unique_ptr<pending_send>> pending_;
  std::vector<int> asked_by_{};                   ///< ranks to answer whether this rank waits
  std::vector<transport::sign_of_life> signs_{};  ///< since the roll was called here
};

}  // namespace kolo::inline KOLO_ABI::detail::mpi
