// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two transports as one: the near one connects the ranks of a node, the far one ranks of different nodes.
#pragma once

#include <kolo/compose/near_ranks.hpp>
#include <kolo/core/own_process.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/launch/meet.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/forwarded.hpp>
#include <kolo/transport/message_queues.hpp>

#include <exception>
#include <optional>
#include <thread>

namespace kolo::inline KOLO_ABI {

/// Has the ranks of `Far`. Models MessageTransport: messages within a node go through Near's slots in pieces, while
/// those of Far are in flight; a waiting rank polls both transports and does not sleep. Near's slots reach every rank
/// (models SharedMemoryTransport) only if all ranks share one node: calls then run as over Near alone, with the same
/// bits, and do not use Far.
///
/// Failure  Far decides which failure is the first. It is then set on both transports, so the ranks of the node see it
///          at once. Near detects a rank of the node that has died or left.
/// Cost     of construction: three small exchanges over Far, through its rank 0.
template <SharedMemoryTransport Near, MessageTransport Far>
class routed {
 public:
  using abilities =
      kolo::abilities<ability::nodes, ability::checks, ability::identity, ability::flush, ability::options,
                      ability::pipeline, ability::lending, ability::heap, ability::search, ability::tuning>;
  /// The options of a call: `{.timeout = 10s}`.
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  };
  /// A message in flight: on the far transport, or on the near one.
  struct ticket {
    typename Far::ticket far{};
    detail::transport::posted_ticket near{};
    bool is_near = false;
  };

  /// Collective over `far`; `near` connects the ranks that pass the same `node`, in the order of their ranks.
  /// Errors  invalid_argument: it does not.
  routed(Near near, Far far, int node)
      : far_{std::move(far)}, near_{std::move(near)}, near_ranks_{far_, node, "routed"} {
    begin_with();
  }

  /// Constructs Far from `args`. Near is shared memory between the ranks that share a node in Far's placement.
  template <class... Args>
    requires std::constructible_from<Far, Args...> && std::same_as<Near, shm::transport>
  explicit routed(Args&&... args)
      : far_{std::forward<Args>(args)...},
        near_{detail::launch::make_node_transport(far_, {.timeout = far_.timeout()}, "routed")},
        near_ranks_{far_, far_.place().node_rank, "routed"} {
    begin_with();
  }
  /// Sets up shared memory as Near if that succeeds on every host within this time; else all ranks return
  /// `far_only(far)`. Throws if `far` has failed.
  static routed near_where_possible(Far far,
                                    std::chrono::nanoseconds within) requires std::same_as<Near, shm::transport> {
    std::optional<Near> near;
    const int node = far.place().node_rank;
    try {
      near.emplace(detail::launch::make_node_transport(far, {.timeout = within}, "routed"));
    } catch (const error&) {
      if (far.failed()) throw;
      return far_only(std::move(far));
    }
    return {*std::move(near), std::move(far), node};
  }
  /// Without Near: each rank is a node of its own, even on a shared host; all messages go over `far`. No communication.
  static routed far_only(Far far) {
    const int rank = far.rank(), size = far.size();
    return {std::move(far), {detail::transport::node_map::by_size(size, 1), rank}};
  }
  routed(routed&&) noexcept = default;
  routed& operator=(routed&&) = delete;
  ~routed() { leave(); }

  int rank() const { return far_.rank(); }
  int size() const { return far_.size(); }
  placement place() const { return near_ranks_.place(); }
  bool is_near() const { return near_.has_value(); }  ///< has a near transport
  std::chrono::nanoseconds timeout() const { return far_.timeout(); }
  bool has_slots() const { return near_ && near_ranks_.place().node_count == 1; }
  const std::vector<int>& nodes() const { return near_ranks_.nodes(); }  ///< the number of the node of each rank
  bool is_checked() const {
    if constexpr (ChecksCalls<Far>) return far_.is_checked();
    else return false;
  }
  /// The table of Far if there is no Near; null: not known.
  const kolo::tuning* tuning() const {
    if constexpr (Tuned<Far>)
      if (!near_) return far_.tuning();
    return nullptr;
  }
  auto recorder(int r) const requires Observable<Near> {  ///< of a rank on this node; else null
    using recorder_of_near = decltype(near_->recorder(0));
    return near_of(r) < 0 ? recorder_of_near{} : near_->recorder(near_of(r));
  }

  // Failure: the near transport adopts the failure that the far one has decided.

  const failure* failed() const {
    if (has_slots()) return near_->failed();
    if (!first_) {
      if (const failure* f = far_.failed()) first_ = *f;
      else if (const failure* n = near_ ? near_->failed() : nullptr; n && !is_of_near(*n)) first_ = *n;
    }
    return first_ ? &*first_ : nullptr;
  }

  const failure& fail(const failure& f) {
    if (has_slots()) return near_->fail(f);
    const failure& decided = far_.fail(failed() ? *first_ : detail::transport::with_peer_identity(*this, f));
    if (!first_) first_ = decided;
    if (near_) near_->fail(*first_);
    return *first_;
  }

  /// Reports to the other ranks that this rank leaves, and why; does not wait. Afterwards this may only be destroyed.
  void leave(const char* why) noexcept {
    if (!process_.is_this()) return;
    const auto f = failure_from({.peer = rank()}, errc::peer_failed, rank(), {}, why);
    if constexpr (requires { far_.leave(why); })
      if (!has_slots() && !failed()) far_.leave(why);
    if (near_ && !near_->failed()) near_->fail(detail::transport::with_peer_identity(*this, f));
  }

  /// As Far identifies it; `unknown_rank` if Far does not identify ranks.
  rank_identity who(int r) const {
    if constexpr (Identifiable<Far>) return far_.who(r);
    else return detail::transport::unknown_rank;
  }
  int rank_of(const rank_identity& somebody) const {
    if (const int r = detail::transport::rank_of(far_, somebody); r >= 0) return r;
    const int n = near_ ? detail::transport::rank_of(*near_, somebody) : -1;
    return n < 0 ? n : near_ranks_.rank_of(n);
  }

  // Waiting.

  void flush() {
    if (near_) near_->flush();
    if constexpr (Flushable<Far>) far_.flush();
  }

  void relax(backoff& p, const wait_context& s) {
    if (!near_) return far_.relax(p, s);
    if (has_slots()) return near_->relax(p, s);
    const int polls = p.count_poll();
    if (near_->failed() || polls % (is_oversubscribed_ ? 4 : 64) == 0) check(p, s);
    if (is_oversubscribed_ ? polls > 2 : polls > 64) std::this_thread::yield();
  }

  void check(backoff& p, const wait_context& s) {
    if (!near_) return far_.check(p, s);
    if (has_slots()) return near_->check(p, s);
    flush();
    poke();
    if (failed()) throw error{fail(*first_)};
    try {
      far_.check(p, s);
    } catch (...) {
      if (failed()) near_->fail(*first_);
      throw;
    }
    check_local_ranks(p, s);
  }

  // Messages.

  void begin(const options& o) {
    if (has_slots()) return;
    if (failed()) throw error{fail(*first_)};
    if constexpr (TakesOptions<Far>) {
      typename Far::options f{};
      f.timeout = o.timeout;
      far_.begin(f);
    }
  }
  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (const int n = near_of(peer); n >= 0) return {{}, queues_.send(n, data, bytes, tag), true};
    return far_ticket(far_.send(peer, data, bytes, tag));
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (const int n = near_of(peer); n >= 0) return {{}, queues_.receive(n, data, bytes, tag), true};
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
  std::size_t pieces_at_once() const { return detail::transport::pieces_at_once(far_); }

  // Slots, and the other members of a SharedMemoryTransport: in use when all ranks share the node.

  std::size_t slot_bytes() const { return has_slots() ? near_->slot_bytes() : ~std::size_t{0}; }
  std::byte* reserve(int peer) { return near_->reserve(peer); }
  std::byte* reserve(int peer, std::size_t bytes) { return near_->reserve(peer, bytes); }
  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const indirect& where = {}) {
    return near_->commit(peer, bytes, tag, where);
  }
  std::byte* spare_buffer(int peer) { return near_->spare_buffer(peer); }
  received_slot peek(int peer) { return near_->peek(peer); }
  void release(int peer) { near_->release(peer); }
  auto slots() const { return near_->slots(); }
  std::size_t round_trip_bytes() const { return near_->round_trip_bytes(); }
  auto round_trip_slots() const { return near_->round_trip_slots(); }
  const std::byte* returned(int peer, std::uint64_t number) { return near_->returned(peer, number); }
  remote_ref make_remote_ref(const std::byte* data, std::size_t bytes) { return near_->make_remote_ref(data, bytes); }
  received_slot claim(int peer) { return near_->claim(peer); }
  void unclaim(int peer) { near_->unclaim(peer); }
  bool still_claims(int peer) { return near_->still_claims(peer); }
  bool cancel(int peer) { return near_->cancel(peer); }
  bool revoke(int peer) { return near_->revoke(peer); }
  std::size_t buffers_in_use() {
    return (near_ ? near_->buffers_in_use() : 0) + detail::transport::buffers_in_use(far_);
  }
  void begin_lending() {
    if (near_) near_->begin_lending();
  }
  void end_lending() {
    if (near_) near_->end_lending();
  }
  int first_polls() const { return near_ ? near_->first_polls() : 0; }
  detail::core::one_way_copy& one_way(int peer) { return near_->one_way(peer); }
  detail::core::one_way_copy& one_way_reply(int peer) { return near_->one_way_reply(peer); }
  std::size_t exchange_bytes() const { return near_ ? near_->exchange_bytes() : 0; }
  std::byte* exchange_slot(int peer) { return near_->exchange_slot(peer); }
  void post_exchange(int peer, std::size_t bytes, std::uint64_t tag) { near_->post_exchange(peer, bytes, tag); }
  received_slot peek_exchange(int peer) { return near_->peek_exchange(peer); }
  void end_exchange(int peer) { near_->end_exchange(peer); }
  /// See shm::heap.
  detail::shm::resource_pointer heap() { return near_ ? near_->heap() : detail::shm::ordinary_memory(); }

  // Groups.

  /// Splits Far first, which has one deadline for all ranks; after it, each rank knows that the others split Near, too.
  routed split(int color, int key) {
    if (failed()) throw error{fail(*failed())};
    Far far{far_.split(color, key)};
    return detail::transport::in_the_name_of("split", [&] {
      if (!near_) return far_only(std::move(far));
      return routed{split_near(color, key), std::move(far), near_ranks_.own()};
    });
  }

  /// See communicator::shrink. Far, which knows all ranks, decides whether it is possible: its error is thrown if not.
  routed shrink(std::chrono::nanoseconds timeout) requires Shrinkable<Near> && Shrinkable<Far> {
    fail(failure_from({.operation = "shrink", .peer = rank()}, errc::peer_failed, rank(), {},
                      "rank " + std::to_string(rank()) + " calls shrink"));
    Far far{far_.shrink(timeout)};
    if (!near_) return far_only(std::move(far));
    Near near{near_->shrink(timeout)};
    return routed{std::move(near), std::move(far), near_ranks_.own()};
  }

 private:
  using clock = backoff::clock;
  static constexpr std::chrono::milliseconds between_polls{25};

  routed(Far far, detail::compose::near_ranks near_ranks) : far_{std::move(far)}, near_ranks_{std::move(near_ranks)} {
    begin_with();
  }

  void begin_with() {
    if (near_) near_ranks_.expect(near_->rank(), near_->size());
    if constexpr (SeesOversubscription<Far>) is_oversubscribed_ = far_.is_oversubscribed();
    else is_oversubscribed_ = detail::os::usable_cores() < place().local_size;
    exceptions_ = std::uncaught_exceptions();
  }

  int near_of(int r) const { return near_ ? near_ranks_.near_of(r) : -1; }
  ticket far_ticket(typename Far::ticket t) {
    if (near_) in_flight_.push(t);
    return {t, {}, false};
  }
  void progress_near() {
    if (!near_) return;
    queues_.progress(*near_, [this](int n) { detail::transport::report_mismatch(*this, near_ranks_.rank_of(n)); });
  }
  /// Progresses Far while this rank waits for another rank of its node.
  void poke() {
    while (!in_flight_.is_empty() && far_.done(in_flight_.front())) in_flight_.pop();
  }

  /// A rank of the node may have sent everything before it ended or left: it is an error only when, at the next check
  /// of the same wait, no piece has moved since.
  void check_local_ranks(const backoff& p, const wait_context& s) {
    const auto now = clock::now();
    if (now - polled_ < between_polls) return;
    polled_ = now;
    const bool is_sure = suspected_since_ == p.since && suspected_at_ == queues_.moved();
    suspected_since_ = {};
    const int awaited = s.peer >= 0 && s.peer < size() ? near_of(s.peer) : -1;
    for (int n = 0; n < near_->size(); ++n) {
      if (!near_->is_gone(n, awaited)) continue;
      suspected_since_ = p.since;
      suspected_at_ = queues_.moved();
      if (!is_sure) continue;
      const bool has_died = near_->is_gone(n, -1);
      const int peer = near_ranks_.rank_of(n);
      throw error{fail(failure_from(s.with_peer(peer), has_died ? errc::peer_died : errc::peer_left, rank(),
                                    now - p.since, detail::transport::is_gone_sentence(peer, has_died)))};
    }
  }

  Near split_near(int color, int key) {
    try {
      return Near{near_->split(color, key)};
    } catch (const error& e) {
      if (has_slots()) throw;
      throw error{fail(as_all_number_it(e.cause()))};
    }
  }
  /// Near found this failure in its own split: it has the rank numbers of Near, so Far reports it instead.
  static bool is_of_near(const failure& f) { return f.found_in == origin::setup; }
  failure as_all_number_it(failure f) const {
    f.text = std::string{std::string_view{f.text}} + " (ranks as node " + std::to_string(place().node_rank) +
             " numbers them)";
    if (f.rank >= 0) f.rank = near_ranks_.rank_of(f.rank);
    if (f.peer >= 0) f.peer = near_ranks_.rank_of(f.peer);
    return f;
  }

  /// While an exception unwinds: fails Near with this rank's number in Far, since Near would use its own number.
  void leave() noexcept {
    if (near_ranks_.is_empty() || !near_ || has_slots() || std::uncaught_exceptions() <= exceptions_ || failed() ||
        !process_.is_this())
      return;
    near_->fail(detail::transport::with_peer_identity(
        *this, detail::transport::failure_while_unwinding(*this, detail::transport::destroyed_by_an_exception)));
  }

  Far far_;
  std::optional<Near> near_{};  ///< none: all messages go over Far
  detail::compose::near_ranks near_ranks_;
  detail::transport::message_queues<Near> queues_{near_ ? near_->size() : 0};
  detail::transport::fifo<typename Far::ticket> in_flight_{64 + 4 * std::size_t(far_.size())};
  mutable std::optional<failure> first_{};
  clock::time_point polled_{}, suspected_since_{};
  std::uint64_t suspected_at_ = 0;
  int exceptions_ = 0;
  detail::core::own_process process_{};  ///< a forked child is not the rank
  bool is_oversubscribed_ = false;       ///< more ranks on this host than it has cores
};

}  // namespace kolo::inline KOLO_ABI
