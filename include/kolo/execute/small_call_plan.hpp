// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan of a small blocking call, made once: it lists what a stream would do. Also finds the cached plan of a call.
#pragma once

#include <kolo/execute/engine.hpp>
#include <kolo/execute/layout.hpp>
#include <kolo/execute/mismatch.hpp>
#include <kolo/execute/pattern.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Its entry in the flight recorder.
inline transport::operation_summary summary_of(const collective_args& args) {
  return {args.collective, args.schedule.rounds, args.is_empty ? 0 : args.count * args.compute.element_bytes};
}

/// Makes plans.
class small_call_planner : layout {
 public:
  [[gnu::cold, gnu::noinline]] small_call_planner(const collective_args& args, int rank, int size,
                                                  std::size_t exchange_bytes, pattern found, small_call_plan& plan)
      : plan_{plan}, exchange_bytes_{exchange_bytes}, exchanges_{found == pattern::exchange} {
    plan = {};
    plan.summary = summary_of(args);
    if (found != pattern::one_way && found != pattern::exchange) return;
    describe(args, rank, size, args.count * args.compute.element_bytes + 1);
    const simple_round round{args.schedule.at(args.schedule.self, virtual_rank(), size, 0), virtual_rank(),
                             args.collective};
    const transfer& t = round.main;
    plan.is_usable = true;
    plan.all = core::dynarray<small_call_plan::peer_stream>(std::size_t(t.to.count + t.from.count));
    plan.out = plan.all.begin();
    plan.in = plan.out + t.to.count;
    plan.combines = t.then != arrival::replace && t.from.count > 0;
    for (int i = 0; i < t.to.count; ++i) add_send(t, i);
    if (round.has_local) keep(block_of(round.local.send, 0, 0), block_of(round.local.receive, 0, 0));
    if (const int own = virtual_rank(); holds_part(own)) keep(own, own);
    if (plan.combines) combine(t);
    else
      for (int i = 0; i < t.from.count; ++i) add_receipt(t, i);
    int others = 0;
    for (int i = 0; i < plan.sends; ++i) others += !plan.out[i].is_exchange;
    for (int i = 0; i < plan.receives; ++i) others += !plan.in[i].is_exchange;
    if (others == 0) plan.uses = small_call_plan::protocol::exchanges;
  }

 private:
  std::size_t bytes(int b) const { return whole(b).count * args_->compute.element_bytes; }
  std::size_t offset(const element_position& p) {
    plan_.is_usable &= p.where == &args_->in || p.where == &args_->out;
    return p.first * args_->compute.element_bytes;
  }

  void add_send(const transfer& t, int i) {
    const int b = block_of(t.send, 0, i);
    if (bytes(b) > 0)
      plan_.out[plan_.sends++] = peer_stream(t.to.at(i, size()), t, i, offset(input_of(b, 0)), bytes(b));
  }
  void add_receipt(const transfer& t, int i) {
    const int b = block_of(t.receive, 0, i);
    if (bytes(b) > 0)
      plan_.in[plan_.receives++] = peer_stream(t.from.at(i, size()), t, i, offset(destination(b, 0)), bytes(b));
  }
  small_call_plan::peer_stream peer_stream(int peer, const transfer& t, int i, std::size_t at, std::size_t n) {
    const auto sent = bytes(block_of(t.send, 0, i)), received = bytes(block_of(t.receive, 0, i));
    return {real(peer), exchanges_ && is_exchange(sent, received, exchange_bytes_),
            exchanges_ && sent > 0 && received > 0, std::uint32_t(at), std::uint32_t(n)};
  }

  void keep(int from, int to) {
    plan_.own = {offset(input_of(from, 0)), offset(destination(to, 0)), bytes(from), whole(from).count};
  }

  [[gnu::cold, gnu::noinline]] void combine(const transfer& t) {
    const int b = block_of(t.receive, 0, 0);
    if (bytes(b) == 0) return void(plan_.combines = false);
    keep(b, b);
    source order[small_call_plan::most_peers + 1];
    std::byte which[small_call_plan::most_peers];
    arrange_sources(t.from, t.then, virtual_rank(), size(), order, [&](int i) { return which + i; });
    for (int i = 0; i <= t.from.count; ++i) {
      if (order[i].data) add_receipt(t, int(order[i].data - which));
      else plan_.own_index = std::uint8_t(i);
    }
  }

  small_call_plan& plan_;
  std::size_t exchange_bytes_;
  bool exchanges_;
};

/// Whether small blocking calls use plans on that transport. Not if elements do not lie in the host's memory.
template <class T>
inline constexpr bool has_small_calls = SharedMemoryTransport<T> ||
                                        (MessageTransport<T> && !SlotTransport<T> && !HasExecutor<T>);

/// The cache entry of this call, filled or not. Null if the call is too large for a plan, if count, element size and
/// root do not determine its pieces (ragged counts, a wire type), or if there is one rank.
template <Transport T>
call_cache::small_call* small_call_of(engine<T>& e, const collective_args& args, call_cache::small_key& key) {
  if constexpr (has_small_calls<T>) {
    const auto bytes = args.count * args.compute.element_bytes;
    if (bytes > most_small_bytes(e.transport) || args.send_counts || args.receive_counts || args.compute.to_wire ||
        e.transport.size() == 1)
      return nullptr;
    key.count = args.count;
    key.element_bytes = args.compute.element_bytes;
    key.root = args.root;
    key.parameter = args.schedule.key;
    return &e.resolved.small(key);
  } else {
    return nullptr;
  }
}

/// The pattern as which it may run as a stream.
inline pattern pattern_of(const collective_args& args, int size) {
  if (!core::is_point_to_point(args.collective)) return classify(args.schedule, args.collective, size);
  return args.collective == kind::exchange ? pattern::exchange : pattern::one_way;
}

/// Plans it; `args.schedule` is known.
template <Transport T>
[[gnu::cold, gnu::noinline]] void plan_small_call(engine<T>& e, const collective_args& args, small_call_plan& plan) {
  const auto& s = args.schedule;
  const auto& t = e.transport;
  const bool may = s.rounds == 1 && s.is_stateless && t.size() > 1 &&
                   (core::is_point_to_point(args.collective) || t.size() <= small_call_plan::most_peers + 1) &&
                   (transport::has_slots(t) || !SlotTransport<T>);
  std::size_t exchange_bytes = 0;
  if constexpr (SharedMemoryTransport<T>) exchange_bytes = t.exchange_bytes();
  const pattern found = may ? pattern_of(args, t.size()) : pattern::rounds;
  small_call_planner{args, t.rank(), t.size(), exchange_bytes, found, plan};
  if constexpr (HasBoard<T>)
    if (plan.is_usable && uses_board(args, found, t.size(), t.board_bytes()))
      plan.uses = small_call_plan::protocol::board;
  if constexpr (SharedMemoryTransport<T>)
    for (int i = 0; i < plan.sends && plan.uses != small_call_plan::protocol::board; ++i)
      plan.may_refer |= !plan.out[i].is_mutual && plan.out[i].bytes >= least_remote_bytes(t);
}

inline void use(collective_args& args, const small_call_plan& plan) { args.small = plan.is_usable ? &plan : nullptr; }

/// The plan that this blocking call uses now; null: it goes through the queue. A plan cannot send by reference, so a
/// call with long pieces whose input peers can address goes through the queue.
template <Transport T>
const small_call_plan* small_plan_for(engine<T>& e, const collective_args& args) {
  if (!args.small || args.in.find || args.out.find || args.epilogue || e.oldest) return nullptr;
  if constexpr (SharedMemoryTransport<T>)
    if (args.small->may_refer &&
        e.transport.make_remote_ref(args.in.base, args.in.count * args.in.element_bytes).length != 0)
      return nullptr;
  return args.small;
}

/// How a call with a named algorithm runs: `args.schedule`. A schedule with parameters is classified each time.
template <Transport T>
void resolve_named(engine<T>& e, collective_args& args) {
  const auto& s = args.schedule;
  const auto classified = [&] { return pattern_of(args, e.transport.size()); };
  if (!s.is_stateless) {
    if (transport::has_streams(e.transport) && !args.compute.to_wire) args.runs_as = classified();
    return;
  }
  // Linkers fold functions of equal code, so the address of `at` alone is not a key.
  call_cache::small_key key{.what = reinterpret_cast<std::uintptr_t>(s.at) << 9 | unsigned(args.collective) << 3 |
                                    unsigned(std::min(s.rounds, 3)) << 1};
  if (auto* const small = small_call_of(e, args, key)) {
    if (small->key != key) [[unlikely]] {
      plan_small_call(e, args, small->plan);
      small->how.runs_as = transport::has_streams(e.transport) ? classified() : pattern::rounds;
      small->key = key;
    }
    args.runs_as = small->how.runs_as;
    use(args, small->plan);
  } else if (transport::has_streams(e.transport) && !args.compute.to_wire) {
    if (s.key != 0) return void(args.runs_as = classified());
    const auto* how = e.resolved.find(key.what);
    if (!how) [[unlikely]] {
      auto& there = e.resolved.entry_for(key.what);
      if (there.key != key.what) there.how.runs_as = classified();
      there.key = key.what;
      how = &there.how;
    }
    args.runs_as = how->runs_as;
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
