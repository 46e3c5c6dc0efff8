// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The point-to-point operations of an engine: their numbers, their order in each direction of a pair, the scratch of
// each, and how the engine progresses all of them concurrently.
#pragma once

#include <kolo/execute/call_signature.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/execute/scratch.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A pool of objects that are acquired and put back; they stay in place as long as the pool lives.
template <class X>
class object_pool {
 public:
  X* take() {
    if (free_.empty()) {
      free_.reserve(all_.size() + 1);
      return &all_.emplace_back();
    }
    X* const it = free_.back();
    free_.pop_back();
    return it;
  }
  void put_back(X* it) { free_.push_back(it); }
  void for_each(auto f) {
    for (X& x : all_) f(x);
  }

 private:
  std::deque<X> all_{};
  std::vector<X*> free_{};
};

/// The signatures that two ranks compare in checked mode.
struct pair_signatures {
  call_signature mine{}, theirs{};
};

/// An engine's point-to-point state, created at the first such operation; virtual so that programs without any do not
/// link it.
template <class Memory>
struct p2p_state {
  virtual ~p2p_state() = default;
  virtual std::uint64_t number(const operation& o, int size) = 0;
  virtual void restore_number(const operation& o) = 0;
  virtual void begin_pass() = 0;
  virtual bool take(const operation& o) = 0;
  virtual bool may_begin_on(const void* stream) const = 0;
  virtual scratch<Memory>* acquire_scratch(const void* stream) = 0;
  virtual void release_scratch(scratch<Memory>* s) = 0;
  virtual void abandon() = 0;
};

/// Precedes a pair operation in checked mode.
struct before_pair {
  virtual ~before_pair() = default;
  virtual operation& first() = 0;
  virtual void restart() = 0;
};

/// Whether two operations use a common direction of one pair.
inline bool share_a_direction(const operation& a, const operation& b) {
  const auto k = a.summary.what(), l = b.summary.what();
  return a.peer == b.peer && (k == l || k == kind::exchange || l == kind::exchange);
}

/// The state for one communicator. Allocates at a rank's first pair operation, and when more operations are in flight
/// than ever before.
template <class Memory>
class pairs final : public p2p_state<Memory> {
 public:
  /// The number of the next operation between this rank and its peer: of the direction to the peer, or else from the
  /// peer.
  std::uint64_t number(const operation& o, int size) override {
    if (from_.empty()) to_.resize(std::size_t(size)), from_.resize(to_.size());
    const auto k = o.summary.what();
    const auto sent = k == kind::receive ? 0 : ++at(to_, o).number;
    return k == kind::send ? sent : std::max(sent, ++at(from_, o).number);
  }
  /// The next operation gets the same number.
  void restore_number(const operation& o) override {
    const auto k = o.summary.what();
    if (k != kind::receive) --at(to_, o).number;
    if (k != kind::send) --at(from_, o).number;
  }

  /// In a pass over all operations, oldest first: whether this one may progress, or an earlier one uses its direction.
  void begin_pass() override { ++pass_; }
  bool take(const operation& o) override {
    const auto k = o.summary.what();
    auto &to = at(to_, o), &from = at(from_, o);
    const bool is_free =
        (k == kind::receive || to.claimed_in != pass_) && (k == kind::send || from.claimed_in != pass_);
    if (k != kind::receive) to.claimed_in = pass_;
    if (k != kind::send) from.claimed_in = pass_;
    return is_free;
  }

  /// Operations in flight at the same time use one stream. (Null if the transport has none.)
  bool may_begin_on(const void* stream) const override { return in_flight_ == 0 || stream == stream_; }

  /// The scratch of an operation until it is put back. A failed operation keeps it: the transport may still write
  /// there.
  scratch<Memory>* acquire_scratch(const void* stream) override {
    stream_ = stream;
    ++in_flight_;
    return scratch_pool_.take();
  }
  void release_scratch(scratch<Memory>* s) override {
    --in_flight_;
    scratch_pool_.put_back(s);
  }
  void abandon() override {
    scratch_pool_.for_each([](scratch<Memory>& s) { s.abandon(); });
  }
  object_pool<pair_signatures> signatures{};

 private:
  struct direction {
    std::uint64_t number = 0, claimed_in = 0;
  };
  static direction& at(std::vector<direction>& all, const operation& o) { return all[std::size_t(o.peer)]; }

  std::vector<direction> to_{}, from_{};
  std::uint64_t pass_ = 0;
  const void* stream_ = nullptr;
  int in_flight_ = 0;
  object_pool<scratch<Memory>> scratch_pool_{};
};

advanced advance_pair(auto& e, operation& o) {
  if (o.has_failed) [[unlikely]]
    e.throw_if_failed();
  const auto a = e.guard(o, [&] {
    e.pair_at_work = &o;
    return o.advance(o);
  });
  e.pair_at_work = nullptr;
  if (a != advanced::stuck) o.waiting.something_happened();
  if (a == advanced::finished) {
    o.finished = true;
    e.flight->end_pair(o.flight_index);
  }
  return a;
}

/// Advances all pair operations that no collective precedes; those with the peer of `awaited` last, so that a transport
/// that remembers one awaited ticket remembers theirs.
advanced advance_pairs(auto& e, operation& awaited) {
  auto result = advanced::stuck;
  e.pairs->begin_pass();
  for (const bool of_awaited : {false, true}) {
    operation* before = nullptr;
    for (operation *i = e.oldest, *next; i && i->is_point_to_point(); i = next) {
      next = i->next;
      i->is_up = true;
      const bool is_its_turn = (i->peer == awaited.peer) == of_awaited && e.pairs->take(*i);
      const auto a = is_its_turn ? advance_pair(e, *i) : advanced::stuck;
      if (a != advanced::stuck) result = advanced::moved;
      if (a == advanced::finished) e.remove(*i, before);
      else before = i;
    }
  }
  if constexpr (MessageTransport<decltype(e.transport)>)
    if (result == advanced::moved && !transport::has_slots(e.transport))
      e.guard(awaited, [&] { e.transport.submit(); });
  return result;
}
/// A blocking one that does all of its work at once and bypasses the queue (`engine::run_now`).
void run_pair_now(auto& e, operation& o, auto& work) {
  const auto index = e.flight->begin_pair(o.now.sequence, o.summary, o.peer);
  e.pair_at_work = &o;
  e.guard(o, [&] { work(o), e.flush(); });
  e.pair_at_work = nullptr;
  e.flight->end_pair(index);
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
