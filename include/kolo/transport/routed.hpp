// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two wires as one: ranks of one node reach each other over the near one, and all others over the far one.
#pragma once

#include <kolo/transport/message_queues.hpp>
#include <kolo/transport/routed/nodes.hpp>
#include <kolo/transport/shm.hpp>

#include <exception>
#include <optional>
#include <thread>

namespace kolo::inline v0 {

/// Its ranks are those of `Far`. Models Messaging: messages for the own node go through Near's slots, piece by piece, while those of Far are under way;
/// who waits polls both wires, and sleeps in none. Where all ranks share one node, and only there, it is Near: its slots reach every rank (models Pairing),
/// and calls run over them as they do over Near alone, with the same bits; Far has nothing to do then.
///
/// Failure  the first one is Far's to decide; it is on both wires then, so neighbours know it at once. A neighbour that has died or left is seen in Near.
/// Cost     of construction: three small exchanges over Far, through its rank 0.
template <Pairing Near, Messaging Far>
class routed {
 public:
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  };
  struct ticket {
    typename Far::ticket far{};
    detail::posted_ticket near{};
    bool is_near = false;
  };

  /// Collective over `far`; `near` connects this rank with those that say the same node, in their order.
  /// Errors  invalid_argument: it does not.
  routed(Near near, Far far, int node) : far_{std::move(far)}, near_{std::move(near)}, nodes_{far_, node} { begin_with(); }

  /// The same, with what a Far is made of; near is the shared memory of those that are neighbours by its placement.
  template <class... Args>
    requires std::constructible_from<Far, Args...> && std::same_as<Near, shm::transport>
  explicit routed(Args&&... args)
      : far_{std::forward<Args>(args)...}, near_{shm::detail::meet_neighbours(far_, {.timeout = far_.timeout()})}, nodes_{far_, far_.place().node_rank} {
    begin_with();
  }
  routed(routed&&) noexcept = default;
  routed& operator=(routed&&) = delete;
  ~routed() { leave(); }

  int rank() const { return far_.rank(); }
  int size() const { return far_.size(); }
  placement place() const { return nodes_.place(); }
  std::chrono::nanoseconds timeout() const { return far_.timeout(); }
  bool has_slots() const { return nodes_.place().node_count == 1; }
  const std::vector<int>& nodes() const { return nodes_.all(); }  ///< of each rank the number of its node
  bool is_checked() const {
    if constexpr (requires { far_.is_checked(); }) return far_.is_checked();
    else return false;
  }
  auto recorder(int r) const requires requires(const Near n) { n.recorder(0); } {  ///< of a neighbour; null of others
    return nodes_.near_of(r) < 0 ? decltype(near_.recorder(0)){} : near_.recorder(nodes_.near_of(r));
  }

  // Failure: the near wire is told what the far one has decided.

  const failure* failed() const {
    if (has_slots()) return near_.failed();
    if (!first_) {
      if (const failure* f = far_.failed()) first_ = *f;
      else if (const failure* n = near_.failed(); n && !is_of_near(*n)) first_ = *n;
    }
    return first_ ? &*first_ : nullptr;
  }

  const failure& fail(const failure& f) {
    if (has_slots()) return near_.fail(f);
    const failure& decided = far_.fail(failed() ? *first_ : f);
    if (!first_) first_ = decided;
    near_.fail(*first_);
    return *first_;
  }

  // Waiting.

  void flush() {
    near_.flush();
    if constexpr (requires { far_.flush(); }) far_.flush();
  }

  void relax(patience& p, const situation& s) {
    if (has_slots()) return near_.relax(p, s);
    const int look = ++p.looks;
    if (near_.failed() || look % (is_crowded_ ? 4 : 64) == 0) check(p, s);
    if (is_crowded_ ? look > 2 : look > 64) std::this_thread::yield();
  }

  void check(patience& p, const situation& s) {
    if (has_slots()) return near_.check(p, s);
    flush();
    poke();
    if (failed()) throw error{fail(*first_)};
    try {
      far_.check(p, s);
    } catch (...) {
      if (failed()) near_.fail(*first_);
      throw;
    }
    look_after_neighbours(p, s);
  }

  // Messages.

  void begin(const options& o) {
    if (has_slots()) return;
    if (failed()) throw error{fail(*first_)};
    if constexpr (requires(typename Far::options f) { far_.begin(f); }) {
      typename Far::options f{};
      f.timeout = o.timeout;
      far_.begin(f);
    }
  }
  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (const int n = nodes_.near_of(peer); n >= 0) return {{}, queues_.send(n, data, bytes, tag), true};
    return far_ticket(far_.send(peer, data, bytes, tag));
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (const int n = nodes_.near_of(peer); n >= 0) return {{}, queues_.receive(n, data, bytes, tag), true};
    return far_ticket(far_.receive(peer, data, bytes, tag));
  }
  void submit() {
    if (!has_slots()) far_.submit();
    progress_near();
    poke();
  }
  bool done(ticket& t) {
    if (!t.is_near) {
      if (far_.done(t.far)) return true;
      progress_near();
      return false;
    }
    progress_near();
    if (queues_.has_ended(t.near)) return true;
    poke();
    return false;
  }
  std::size_t piece_bytes() const { return far_.piece_bytes(); }
  std::size_t pieces_at_once() const {
    if constexpr (requires { far_.pieces_at_once(); }) return far_.pieces_at_once();
    else return 2;
  }

  // Slots, and what they can besides: where all ranks share the node.

  std::size_t slot_bytes() const { return near_.slot_bytes(); }
  std::byte* reserve(int peer) { return near_.reserve(peer); }
  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const elsewhere& where = {}) { return near_.commit(peer, bytes, tag, where); }
  arrived peek(int peer) { return near_.peek(peer); }
  void release(int peer) { near_.release(peer); }
  auto slots() const { return near_.slots(); }
  const std::byte* returned(int peer, std::uint64_t number) { return near_.returned(peer, number); }
  reference refer(const std::byte* data, std::size_t bytes) { return near_.refer(data, bytes); }
  arrived take(int peer) { return near_.take(peer); }
  void let_go(int peer) { near_.let_go(peer); }
  bool keeps(int peer) { return near_.keeps(peer); }
  bool withdraw(int peer) { return near_.withdraw(peer); }
  bool revoke(int peer) { return near_.revoke(peer); }
  std::size_t buffers_in_use() { return near_.buffers_in_use() + kolo::detail::buffers_in_use(far_); }
  void begin_lending() { near_.begin_lending(); }
  void end_lending() { near_.end_lending(); }
  std::size_t swap_bytes() const { return near_.swap_bytes(); }
  std::byte* swap_place(int peer) { return near_.swap_place(peer); }
  void swap(int peer, std::size_t bytes, std::uint64_t tag) { near_.swap(peer, bytes, tag); }
  arrived swapped(int peer) { return near_.swapped(peer); }
  void end_swap(int peer) { near_.end_swap(peer); }
  const detail::resource_pointer& heap() { return near_.heap(); }  ///< see shm::heap

  // Groups.

  /// Far splits first, with a deadline for all; then the neighbours, who know by that that they meet.
  routed split(int color, int key) {
    if (failed()) throw error{fail(*failed())};
    Far far = far_.split(color, key);
    return routed{split_near(color, key), std::move(far), nodes_.own()};
  }

  /// See communicator::shrink: as far as Far can, which knows all ranks; what says that it cannot is its error.
  routed shrink(std::chrono::nanoseconds timeout) requires detail::Shrinking<Near> && detail::Shrinking<Far> {
    fail(failure_in({.operation = "shrink", .peer = rank()}, errc::peer_failed, rank(), {}, "rank " + std::to_string(rank()) + " calls shrink"));
    Far far = far_.shrink(timeout);
    auto near = near_.shrink(timeout);
    return routed{std::move(near), std::move(far), nodes_.own()};
  }

 private:
  using clock = patience::clock;
  static constexpr std::chrono::milliseconds between_looks{25};

  void begin_with() {
    nodes_.expect(near_.rank(), near_.size());
    if constexpr (requires { far_.is_crowded(); }) is_crowded_ = far_.is_crowded();
    else is_crowded_ = detail::usable_cores() < size();
    exceptions_ = std::uncaught_exceptions();
  }

  ticket far_ticket(typename Far::ticket t) {
    under_way_.push(t);
    return {t, {}, false};
  }
  void progress_near() {
    queues_.progress(near_, [this](int n) {
      const int peer = nodes_.neighbour(n);
      throw error{fail(failure_in({.peer = peer}, errc::mismatch, rank(), {}, detail::another_message_from(peer)))};
    });
  }
  /// Far goes on while this rank waits for a neighbour.
  void poke() {
    while (!under_way_.is_empty() && far_.done(under_way_.front())) under_way_.pop();
  }

  /// A neighbour that ended or left may have done its part before: it is told when nothing more has come by the next look.
  void look_after_neighbours(const patience& p, const situation& s) {
    const auto now = clock::now();
    if (now - looked_ < between_looks) return;
    looked_ = now;
    const bool is_sure = suspected_since_ == p.since && suspected_at_ == queues_.moved();
    suspected_since_ = {};
    const int awaited = s.peer >= 0 && s.peer < size() ? nodes_.near_of(s.peer) : -1;
    for (int n = 0; n < near_.size(); ++n) {
      if (!near_.is_gone(n, awaited)) continue;
      suspected_since_ = p.since;
      suspected_at_ = queues_.moved();
      if (!is_sure) continue;
      const bool has_died = near_.is_gone(n, -1);
      const int peer = nodes_.neighbour(n);
      const auto text = "rank " + std::to_string(peer) + (has_died ? " died" : " has destroyed its communicator, and is still waited for");
      throw error{fail(failure_in({s.operation, s.sequence, s.round, peer, s.timeout}, has_died ? errc::peer_died : errc::peer_left, rank(), now - p.since, text))};
    }
  }

  Near split_near(int color, int key) {
    try {
      return near_.split(color, key);
    } catch (const error& e) {
      if (has_slots()) throw;
      throw error{fail(as_all_number_it(e.cause()))};
    }
  }
  /// What Near has found by itself, while it split, names its own ranks; Far tells of it.
  static bool is_of_near(const failure& f) { return std::string_view{f.operation} == "split"; }
  failure as_all_number_it(failure f) const {
    f.text = std::string{std::string_view{f.text}} + " (ranks as node " + std::to_string(place().node_rank) + " numbers them)";
    if (f.rank >= 0) f.rank = nodes_.neighbour(f.rank);
    if (f.peer >= 0) f.peer = nodes_.neighbour(f.peer);
    return f;
  }

  /// Each wire tells its own; the near one would name this rank by another number.
  void leave() noexcept {
    if (nodes_.is_empty() || has_slots() || std::uncaught_exceptions() <= exceptions_ || failed()) return;
    failure f;
    f.code = errc::peer_failed;
    f.rank = f.peer = rank();
    f.text = "an exception destroyed its communicator";
    near_.fail(f);
  }

  Far far_;
  Near near_;
  detail::node_map nodes_;
  detail::message_queues<Near> queues_{near_.size()};
  detail::fifo<typename Far::ticket> under_way_{64 + 4 * static_cast<std::size_t>(far_.size())};
  mutable std::optional<failure> first_{};
  clock::time_point looked_{}, suspected_since_{};
  std::uint64_t suspected_at_ = 0;
  int exceptions_ = 0;
  bool is_crowded_ = false;  ///< more ranks on this host than it has cores
};

}  // namespace kolo::inline v0
