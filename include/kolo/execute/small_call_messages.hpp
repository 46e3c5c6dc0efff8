// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small blocking call over a message transport: its cached plan is posted, awaited and combined. Also runs those
// between two ranks.
#pragma once

#include <kolo/execute/small_call.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Bit for bit and message for message the same as `messaging_run` for the same call, so ranks may differ in which of
/// the two they use.
template <MessageTransport T>
class small_call_messages {
 public:
  small_call_messages(engine<T>& e, const collective_args& args, operation& o, const small_call_plan& plan)
      : engine_{e}, args_{args}, operation_{o}, plan_{plan} {}

  void run() {
    const std::uint64_t tag = operation_.tag;
    typename T::ticket out[small_call_plan::most_peers], in[small_call_plan::most_peers];
    for (int i = 0; i < plan_.sends; ++i)
      out[i] = transport().send(plan_.out[i].peer, args_.in.base + plan_.out[i].offset, plan_.out[i].bytes, tag);
    const bool is_staged =
        plan_.combines || args_.collective == kind::barrier;  // a barrier sends and receives in one place
    const std::size_t each = plan_.receives > 0 ? in_lines(plan_.in[0].bytes) : 0;
    auto* const staging = engine_.current_scratch->staging[0].at_least(is_staged ? plan_.receives * each : 0);
    for (int i = 0; i < plan_.receives; ++i) {
      auto* const to = is_staged ? staging + std::size_t(i) * each : args_.out.base + plan_.in[i].offset;
      in[i] = transport().receive(plan_.in[i].peer, to, plan_.in[i].bytes, tag);
    }
    transport().submit();
    auto* const result = args_.out.base + plan_.own.to;
    auto* const own = args_.in.base + plan_.own.from;
    if (!plan_.combines && plan_.own.bytes > 0 && result != own) host_executor::copy(result, own, plan_.own.bytes);
    for (int i = 0; i < plan_.receives; ++i) await(in[i], plan_.in[i].peer);
    for (int i = 0; i < plan_.sends; ++i) await(out[i], plan_.out[i].peer);
    if (plan_.combines) combine(result, own, staging, each);
  }

 private:
  T& transport() { return engine_.transport; }

  void await(typename T::ticket& ticket, int peer) {
    for (operation_.now.peer = peer; !transport().done(ticket);) engine_.relax(operation_.waiting, operation_.now);
  }

  void combine(std::byte* result, const std::byte* own, const std::byte* staging, std::size_t each) {
    source sources[small_call_plan::most_peers + 1];
    for (int i = 0, k = 0; i <= plan_.receives; ++i)
      sources[i] = i == plan_.own_index ? source{own, false} : source{staging + std::size_t(k++) * each, true};
    host_executor::combine(args_.compute, result, sources, plan_.receives + 1, plan_.own.elements, transport().size());
  }

  engine<T>& engine_;
  const collective_args& args_;
  operation& operation_;
  const small_call_plan& plan_;
};

/// As an operation: a call over messages, or between two ranks. Bypasses the queue, which is empty.
template <Transport T>
void run_small_operation(engine<T>& e, const collective_args& args, const small_call_plan& plan,
                         const typename T::options& options, std::chrono::nanoseconds timeout) {
  operation o;
  describe(o, args, plan.summary, timeout);
  o.now.round = 0;
  e.number(o);
  if (o.is_point_to_point()) e.pair_at_work = &o;
  else e.flight->begin(o.now.sequence, o.summary, o.tag);
  e.guard(o, [&] {
    if constexpr (TakesOptions<T>) e.transport.begin(options);
    if constexpr (SharedMemoryTransport<T>) small_call_run<T>{e, args, plan, timeout, o.tag, &o}.run();
    else if constexpr (has_small_calls<T>) small_call_messages<T>{e, args, o, plan}.run();
    e.flush();
  });
  e.pair_at_work = nullptr;
  if (o.is_point_to_point()) e.flight->end_pair(o.flight_index);
  else e.flight->end(o.now.sequence, o.summary);
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
