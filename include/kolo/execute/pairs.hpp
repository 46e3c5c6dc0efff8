// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The point-to-point operations of an engine: their numbers, their order in each direction of a pair, the scratch of
// each, and how the engine progresses all of them concurrently.
#pragma once

#include <kolo/core/call_site.hpp>
#include <kolo/core/less_code.hpp>
#include <kolo/execute/call_cache.hpp>
#include <kolo/execute/call_signature.hpp>
#include <kolo/execute/call_types.hpp>
#include <kolo/execute/collective_args.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/execute/scratch.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::execute {

template <class T>
struct engine;  // execute/engine.hpp

/// A pool of objects that are acquired and put back; they stay in place as long as the pool lives.
template <class X>
class object_pool {
 public:
  X* take() {
    if (free_.empty()) {
      free_.reserve(all_.size() + 1);
      return all_.emplace_back(std::make_unique<X>()).get();
    }
    X* const it = free_.back();
    free_.pop_back();
    return it;
  }
  void put_back(X* it) { free_.push_back(it); }
  void for_each(auto f) {
    for (const auto& x : all_) f(*x);
  }

 private:
  std::vector<std::unique_ptr<X>> all_{};
  std::vector<X*> free_{};
};

/// The signatures that two ranks compare in checked mode.
struct pair_signatures {
  call_signature mine{}, theirs{};
};

/// The point-to-point part of an engine, created at the first such operation; virtual so that programs without any do
/// not compile it.
template <class T>
struct p2p_state {
  using memory = typename engine<T>::memory;
  using options = typename T::options;
  using advance_fn = advanced (*)(operation&);

  virtual ~p2p_state() = default;
  virtual void begin(operation& o) = 0;
  virtual void restore_number(const operation& o) = 0;
  virtual void enqueue(operation& o) = 0;
  virtual void remove(operation& o) noexcept = 0;
  virtual advanced advance(operation& awaited) = 0;
  virtual advanced advance_apart(operation& o, advance_fn f, scratch<memory>*& its, const void* stream) = 0;
  virtual operation& blocker_of(operation& o) = 0;
  virtual void run_small(const collective_args& args, const small_call_plan& plan, const options& of_call) = 0;
  virtual std::unique_ptr<call_check> comparison_of(const call_types& types, const collective_args& args,
                                                    const options& of_call, call_site site) = 0;
  virtual void abandon() = 0;
};

/// The state for one communicator. Allocates at a rank's first pair operation, and when more operations are in flight
/// than ever before.
template <class T>
class pairs final : public p2p_state<T> {
 public:
  using typename p2p_state<T>::memory, typename p2p_state<T>::options, typename p2p_state<T>::advance_fn;

  explicit pairs(engine<T>& e) : engine_{e}, to_(std::size_t(e.transport.size())), from_(to_.size()) {
    busy_.reserve(to_.size());
  }

  /// Numbers the next operation between this rank and its peer, in the direction to the peer, or else from the peer;
  /// and enters it in the flight recorder.
  void begin(operation& o) override {
    const auto k = o.summary.what();
    const auto sent = k == kind::receive ? 0 : ++at(to_, o).number;
    o.now.is_point_to_point = true;
    o.now.only_sends = k == kind::send;
    o.now.sequence = k == kind::send ? sent : std::max(sent, ++at(from_, o).number);
    o.flight_index = engine_.flight->begin_pair(o.now.sequence, o.summary, o.peer);
  }
  /// The next operation gets the same number.
  void restore_number(const operation& o) override {
    const auto k = o.summary.what();
    if (k != kind::receive) --at(to_, o).number;
    if (k != kind::send) --at(from_, o).number;
  }

  void enqueue(operation& o) override {
    if (is_idle(o.peer)) busy_.push_back(o.peer);
    for_directions(o, [&](direction& d, auto its) {
      o.*its = {nullptr, d.newest};
      (d.newest ? (d.newest->*its).next : d.oldest) = &o;
      d.newest = &o;
    });
  }
  void remove(operation& o) noexcept override {
    for_directions(o, [&](direction& d, auto its) {
      const auto [next, previous] = o.*its;
      (previous ? (previous->*its).next : d.oldest) = next;
      (next ? (next->*its).previous : d.newest) = previous;
    });
    if (is_idle(o.peer)) busy_.erase(std::find(busy_.begin(), busy_.end(), o.peer));
  }

  /// Advances the oldest pair operation of each direction, unless a collective precedes it; those with the peer of
  /// `awaited` last, so that a transport that remembers one awaited ticket remembers theirs.
  advanced advance(operation& awaited) override {
    auto result = advanced::stuck;
    for (const bool of_awaited : {false, true})
      for (auto i = busy_.size(); i-- > 0;) {
        const auto peer = std::size_t(busy_[i]);
        if ((busy_[i] == awaited.peer) != of_awaited) continue;
        operation *const to = to_[peer].oldest, *const from = from_[peer].oldest;
        for (operation* const o : {to, from != to ? from : nullptr}) {
          const auto a = o && o->is_up && is_first(*o) ? advance_one(*o) : advanced::stuck;
          if (a != advanced::stuck) result = advanced::moved;
          if (a == advanced::finished) engine_.remove(*o);
        }
      }
    if constexpr (MessageTransport<T>)
      if (result == advanced::moved && !transport::has_slots(engine_.transport))
        engine_.guard(awaited, [&] { engine_.transport.submit(); });
    return result;
  }

  /// Calls f(o) with a scratch of its own, until it has finished: other operations progress beside it. A failed
  /// operation keeps it: the transport may still write there. Operations in flight at the same time use one stream
  /// (null if the transport has none).
  advanced advance_apart(operation& o, advance_fn f, scratch<memory>*& its, const void* stream) override {
    if (!its) {
      if (in_flight_ > 0 && stream != stream_) return advanced::stuck;
      stream_ = stream;
      ++in_flight_;
      its = scratch_pool_.take();
    }
    const core::scoped_value here{engine_.current_scratch, its};
    const auto a = f(o);
    if (a == advanced::finished) {
      --in_flight_;
      scratch_pool_.put_back(std::exchange(its, nullptr));
    }
    return a;
  }

  operation& blocker_of(operation& o) override {
    operation* earlier = nullptr;  // an exchange waits for both directions
    for_directions(o, [&](const direction& d, auto) {
      if (d.oldest != &o) earlier = d.oldest;
    });
    return earlier ? engine_.blocker_of(*earlier) : o;
  }

  // Defined in impl/calls.hpp.
  void run_small(const collective_args& args, const small_call_plan& plan, const options& of_call) override;
  std::unique_ptr<call_check> comparison_of(const call_types& types, const collective_args& args,
                                            const options& of_call, call_site site) override;

  void abandon() override {
    scratch_pool_.for_each([](scratch<memory>& s) { s.abandon(); });
  }
  object_pool<pair_signatures> signatures{};

 private:
  struct direction {
    std::uint64_t number = 0;
    operation *oldest = nullptr, *newest = nullptr;  ///< of those that have not ended
  };
  static direction& at(std::vector<direction>& all, const operation& o) { return all[std::size_t(o.peer)]; }
  /// Calls f(d, its) for each direction of `o`; `o.*its` are its neighbours there.
  void for_directions(const operation& o, auto f) {
    const auto k = o.summary.what();
    if (k != kind::receive) f(at(to_, o), &operation::to_peer);
    if (k != kind::send) f(at(from_, o), &operation::from_peer);
  }
  bool is_idle(int peer) const { return !to_[std::size_t(peer)].oldest && !from_[std::size_t(peer)].oldest; }
  /// Whether no earlier one uses a direction of it.
  bool is_first(const operation& o) {
    bool all = true;
    for_directions(o, [&](const direction& d, auto) { all = all && d.oldest == &o; });
    return all;
  }

  advanced advance_one(operation& o) {
    if (o.has_failed) [[unlikely]]
      engine_.throw_if_failed();
    const auto a = engine_.guard(o, [&] {
      engine_.pair_at_work = &o;
      return o.advance(o);
    });
    engine_.pair_at_work = nullptr;
    if (a != advanced::stuck) o.waiting.something_happened();
    if (a == advanced::finished) {
      o.finished = true;
      engine_.flight->end_pair(o.flight_index);
    }
    return a;
  }

  engine<T>& engine_;
  std::vector<direction> to_, from_;
  std::vector<int> busy_{};  ///< the peers with which an operation has not ended
  const void* stream_ = nullptr;
  int in_flight_ = 0;
  object_pool<scratch<memory>> scratch_pool_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
