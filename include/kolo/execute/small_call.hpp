// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs small blocking calls by their plans over slots, where every nanosecond counts.
#pragma once

#include <kolo/execute/executor.hpp>
#include <kolo/execute/small_call_plan.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Runs plans. Bit for bit and byte for byte the same as `stream_run` for the same call, so ranks may differ in which
/// of the two they use. It creates an operation only if it must wait or reports an error.
template <SharedMemoryTransport T>
class small_call_run {
 public:
  /// `pair`: the numbered operation of a point-to-point call; else null.
  small_call_run(engine<T>& e, const collective_args& args, const small_call_plan& plan,
                 std::chrono::nanoseconds timeout, std::uint64_t tag, operation* pair)
      : engine_{e}, args_{args}, plan_{plan}, timeout_{timeout}, tag_{tag}, pair_{pair} {}

  void run() {
    try {
      if (plan_.uses == protocol::exchanges) return run<protocol::exchanges>();
      if constexpr (HasBoard<T>)
        if (plan_.uses == protocol::board) return run<protocol::board>();
      run<protocol::mixed>();
    } catch (...) {
      for (int i = 0; plan_.uses == protocol::mixed && i < plan_.receives; ++i)
        if (!plan_.in[i].is_exchange)
          transport().unclaim(plan_.in[i].peer);  // pieces claimed while it waited for others
      throw;
    }
  }

  /// Used in an error.
  operation& own_operation() { return waiting().its; }

 private:
  using peer_stream = small_call_plan::peer_stream;
  using protocol = small_call_plan::protocol;

  struct wait_for_peer : mismatch_checker<T> {
    operation mine{}, &its;
    wait_for_peer(engine<T>& e, const collective_args& args, operation* pair)
        : mismatch_checker<T>{e, args, pair ? *pair : mine}, its{pair ? *pair : mine} {}
    using mismatch_checker<T>::report_mismatch, mismatch_checker<T>::check_strays, mismatch_checker<T>::confirm;
  };

  T& transport() { return engine_.transport; }

  template <protocol Protocol>
  [[gnu::always_inline]] void run() {
    if constexpr (Protocol == protocol::board) post();
    else
      for (int i = 0; i < plan_.sends; ++i) send<Protocol == protocol::exchanges>(plan_.out[i]);
    auto* const result = args_.out.base + plan_.own.to;
    auto* const operand = args_.in.base + plan_.own.from;
    if (plan_.combines) {
      source sources[small_call_plan::most_peers + 1];
      source* next = sources;
      for (int i = 0; i < plan_.receives; ++i) {
        if (i == plan_.own_index) *next++ = {operand, false};
        *next++ = {await<Protocol>(plan_.in[i]).data, true};
      }
      if (plan_.own_index == plan_.receives) *next = {operand, false};
      host_executor::combine(args_.compute, result, sources, plan_.receives + 1, plan_.own.elements,
                             transport().size());
    } else {
      if (plan_.own.bytes > 0 && result != operand) host_executor::copy(result, operand, plan_.own.bytes);
      for (int i = 0; i < plan_.receives; ++i) {
        const auto& l = plan_.in[i];
        const received_slot a = await<Protocol>(l);
        const bool in_ring = Protocol == protocol::mixed && a.in_ring;
        (in_ring ? core::copy_from_ring : host_executor::copy)(args_.out.base + l.offset, a.data, l.bytes);
      }
    }
    if constexpr (Protocol == protocol::board) {
      transport().end_board(args_.collective != kind::broadcast);
    } else {
      if constexpr (Protocol == protocol::mixed)
        for (int i = 0; i < plan_.receives; ++i)
          if (const auto& l = plan_.in[i]; !l.is_exchange && l.bytes >= least_remote_bytes(transport()))
            if (!transport().still_claims(l.peer)) [[unlikely]]
              waiting().confirm(l.peer);
      for (int i = 0; i < plan_.receives; ++i)
        Protocol == protocol::exchanges || plan_.in[i].is_exchange ? transport().end_exchange(plan_.in[i].peer)
                                                                   : transport().release(plan_.in[i].peer);
    }
  }

  void post() {
    if (plan_.sends == 0) return;
    int behind = 0;
    auto* to = transport().reserve_board(plan_.out[0].bytes, behind);
    for (; !to; to = transport().reserve_board(plan_.out[0].bytes, behind)) wait(behind);
    host_executor::copy(to, args_.in.base + plan_.out[0].offset, plan_.out[0].bytes);
    transport().post_on_board(plan_.out[0].bytes, tag_);
  }

  template <bool OnlyExchanges>
  [[gnu::always_inline]] void send(const peer_stream& l) {
    const auto* const from = args_.in.base + l.offset;
    if (OnlyExchanges || l.is_exchange) {
      host_executor::copy(transport().exchange_slot(l.peer), from, l.bytes);
      return transport().post_exchange(l.peer, l.bytes, tag_);
    }
    auto* to = transport().reserve(l.peer, l.bytes);
    for (; !to; to = transport().reserve(l.peer, l.bytes)) wait(l.peer);
    if (auto* const spare = l.is_mutual ? transport().spare_buffer(l.peer) : nullptr) {
      host_executor::copy(spare, from, l.bytes);
      transport().commit(l.peer, l.bytes, tag_, {{}, {}, true});
    } else {
      indirect where;
      where.stored = transport().one_way(l.peer)(
          l.bytes, [&](bool past_cache) { host_executor::copy_one_way(to, from, l.bytes, past_cache); });
      transport().commit(l.peer, l.bytes, tag_, where);
    }
  }

  template <protocol Protocol>
  [[gnu::always_inline]] received_slot peek(const peer_stream& l) {
    if constexpr (Protocol == protocol::board) return transport().peek_board(l.peer);
    else
      return Protocol == protocol::exchanges || l.is_exchange ? transport().peek_exchange(l.peer)
                                                              : transport().peek(l.peer);
  }

  template <protocol Protocol>
  [[gnu::always_inline]] received_slot await(const peer_stream& l) {
    for (int polls = transport().first_polls();; polls > 0 ? (--polls, KOLO_PAUSE()) : wait(l.peer)) {
      received_slot a = peek<Protocol>(l);
      if (a.data && (a.tag != tag_ || a.bytes != l.bytes)) [[unlikely]]
        waiting().report_mismatch(l.peer, a);
      if (Protocol == protocol::mixed && a.data && !l.is_exchange) a = transport().claim(l.peer);
      if (!a.data) continue;
      if (waiting_) [[unlikely]]
        waiting_->its.waiting.something_happened();  // the wait for the next peer starts afresh
      return a;
    }
  }

  void wait(int peer) {
    auto& w = waiting();
    w.its.now.peer = peer;
    engine_.relax(w.its);
    w.check_strays();
  }
  wait_for_peer& waiting() {
    if (!waiting_) begin_waiting();
    return *waiting_;
  }
  [[gnu::noinline]] void begin_waiting() {
    auto& o = waiting_.emplace(engine_, args_, pair_).its;
    if (pair_) return;
    o.now.operation = args_.operation();
    o.now.sequence = engine_.sequence;
    o.now.round = 0;
    o.now.timeout = timeout_;
    o.tag = tag_;
  }

  engine<T>& engine_;
  const collective_args& args_;
  const small_call_plan& plan_;
  std::chrono::nanoseconds timeout_;
  std::uint64_t tag_;
  operation* pair_;
  std::optional<wait_for_peer> waiting_{};
};

/// Sets the fields by which an operation is reported.
[[gnu::always_inline]] inline void describe(operation& o, const collective_args& args,
                                            const transport::operation_summary& summary,
                                            std::chrono::nanoseconds timeout) {
  o.now.operation = args.operation();
  o.now.peer = o.peer = args.peer;
  o.now.timeout = timeout;
  o.summary = summary;
  o.fingerprint = args.fingerprint;
  o.tag = args.tag;
}

/// Bypasses the queue, which is empty.
template <SharedMemoryTransport T>
void run_small_call(engine<T>& e, const collective_args& args, const small_call_plan& plan,
                    const typename T::options& options, std::chrono::nanoseconds timeout) {
  e.acquire_turn();
  const auto tag = e.next_tag(args.fingerprint);
  small_call_run<T> run{e, args, plan, timeout, tag, nullptr};
  const auto sequence = e.sequence;
  e.flight->begin(sequence, plan.summary, tag);
  try {
    if constexpr (TakesOptions<T>) e.transport.begin(options);
    run.run();
  } catch (const error& thrown) {
    e.break_by(run.own_operation(), thrown);
  } catch (...) {
    e.break_by_exception(run.own_operation());
    throw;
  }
  e.flight->end(sequence, plan.summary);
  e.flush();
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
