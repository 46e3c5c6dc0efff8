// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks without shared memory notify each other of a failure, agree on the first one, and detect ranks that are gone.
#pragma once

#include "rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace tcp {

/// Uses a control connection to each other rank. A rank that fails sends its failure to all as a proposal. The judge, the
/// lowest rank whose connection has not ended, decides for one proposal and sends the decision to all. If no decision
/// comes within `moment` (the judge computes), a rank decides for the proposal of the lowest rank that it has received.
class failure_channel {
 public:
  static constexpr std::chrono::milliseconds moment{500};

  failure_channel() = default;
  failure_channel(int rank, std::vector<socket> lines) : rank_{rank} {
    for (socket& s : lines) {
      watched_.push_back({s.get(), POLLIN, 0});
      peers_.push_back({std::move(s)});
    }
  }

  const failure* failed() const { return first_ ? &*first_ : nullptr; }
  const failure& fail(const failure& f) {
    if (poll()) return *first_;
    consider(rank_, f);
    if (judge() != rank_) send_all(word::proposal, f);
    decide();
    return *first_;
  }
  /// The first failure, if this rank or another one has sent one.
  const failure* poll() {
    receive_all();
    if (!first_ && proposal_) decide();
    return failed();
  }

  bool is_silent(int r) const { return !to(r).is_there; }  ///< its connection has ended
  bool has_left(int r) const { return to(r).has_left; }    ///< it had sent goodbye before
  const std::vector<pollfd>& watched() const { return watched_; }

  /// Sends goodbye, and before it `failing`, if not null and no failure is known yet. Does not block.
  void leave(const failure* failing) {
    receive_all();
    if (!first_ && failing) send_all(judge() == rank_ ? word::decision : word::proposal, *failing);
    send_all(word::goodbye, {});
    receive_all();  // closing a socket with unread data would reset the connection, and the peer would lose data
  }

 private:
  enum class word : std::int64_t { proposal, decision, goodbye };
  struct statement {
    word what = word::goodbye;
    failure about{};
  };
  struct peer {
    socket line{};
    statement received{};
    std::size_t bytes = 0;  ///< received so far of its current statement
    bool is_there = true, has_left = false;
  };

  peer& to(int r) { return peers_[static_cast<std::size_t>(r)]; }
  const peer& to(int r) const { return peers_[static_cast<std::size_t>(r)]; }

  int judge() const {
    int r = 0;
    while (r != rank_ && is_silent(r)) ++r;
    return r;
  }
  void receive_all(std::chrono::milliseconds at_most = {}) {
    if (::poll(watched_.data(), watched_.size(), static_cast<int>(at_most.count())) <= 0) return;
    for (std::size_t r = 0; r < peers_.size(); ++r)
      while (watched_[r].revents != 0 && receive_from(static_cast<int>(r))) continue;
  }
  bool receive_from(int r) {
    peer& p = to(r);
    const auto n = ::recv(p.line.get(), reinterpret_cast<char*>(&p.received) + p.bytes, sizeof p.received - p.bytes, 0);
    if (n <= 0) {
      p.is_there = n < 0 && is_only_not_now();
      if (!p.is_there) watched_[static_cast<std::size_t>(r)] = {-1, 0, 0};
      return false;
    }
    if ((p.bytes += static_cast<std::size_t>(n)) < sizeof p.received) return true;
    p.bytes = 0;
    if (p.received.what == word::goodbye) p.has_left = true;
    else if (p.received.what == word::proposal) consider(r, p.received.about);
    else if (!first_) first_ = p.received.about;
    return true;
  }
  void consider(int rank, const failure& f) {
    if (!proposal_ || rank < proposal_->first) proposal_ = {rank, f};
  }
  void decide() {
    for (const auto until = clock::now() + moment; !first_ && judge() != rank_ && clock::now() < until;)
      receive_all(moment / 10);
    if (first_) return;
    first_ = proposal_->second;
    if (judge() == rank_) send_all(word::decision, *first_);
  }
  void send_all(word what, const failure& about) {
    const statement s{what, about};
    for (const peer& p : peers_)
      if (p.line) static_cast<void>(::send(p.line.get(), &s, sizeof s, MSG_NOSIGNAL));
  }

  int rank_ = 0;
  std::vector<peer> peers_{};
  std::vector<pollfd> watched_{};
  std::optional<failure> first_{};
  std::optional<std::pair<int, failure>> proposal_{};  ///< that of the lowest rank received so far
};

}  // namespace tcp
