// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small blocking call over a wire that carries messages: its plan is remembered, posted, awaited and combined.
#pragma once

#include <kolo/execute/quick.hpp>

namespace kolo::inline v0::detail {

/// Bit for bit and message for message what `messaging_run` does with the same call, so ranks may differ in which of the two they take.
template <Messaging T>
class quick_messages {
 public:
  static constexpr std::size_t most_bytes = 32 * 1024;  ///< of a vector or part: beyond, what the plan saves is not seen

  static bool can_run(const engine<T>& e, const problem& job) { return is_quick(e, job, std::min(most_bytes, e.transport.piece_bytes())); }
  static const quick_plan& plan_for(engine<T>& e, const problem& job) { return quick_plan_for(e, job, 0); }

  quick_messages(engine<T>& e, const problem& job, operation& o, const quick_plan& plan) : engine_{e}, job_{job}, operation_{o}, plan_{plan} {}

  void run() {
    const std::uint64_t tag = operation_.tag;
    typename T::ticket out[quick_plan::most_peers], in[quick_plan::most_peers];
    for (int i = 0; i < plan_.sends; ++i) out[i] = wire().send(plan_.out[i].peer, job_.in.base + plan_.out[i].offset, plan_.out[i].bytes, tag);
    const bool is_staged = plan_.combines || job_.collective == kind::barrier;  // a barrier sends and receives in one place
    const std::size_t each = plan_.receives > 0 ? (plan_.in[0].bytes + 63) / 64 * 64 : 0;
    auto* const staging = engine_.staging[0].at_least(is_staged ? plan_.receives * each : 0);
    for (int i = 0; i < plan_.receives; ++i) {
      auto* const place = is_staged ? staging + static_cast<std::size_t>(i) * each : job_.out.base + plan_.in[i].offset;
      in[i] = wire().receive(plan_.in[i].peer, place, plan_.in[i].bytes, tag);
    }
    wire().submit();
    auto* const result = job_.out.base + plan_.own.to;
    auto* const own = job_.in.base + plan_.own.from;
    if (!plan_.combines && plan_.own.bytes > 0 && result != own) host_hands::copy(result, own, plan_.own.bytes);
    for (int i = 0; i < plan_.receives; ++i) await(in[i], plan_.in[i].peer);
    for (int i = 0; i < plan_.sends; ++i) await(out[i], plan_.out[i].peer);
    if (plan_.combines) combine(result, own, staging, each);
  }

 private:
  T& wire() { return engine_.transport; }

  void await(typename T::ticket& ticket, int peer) {
    for (operation_.now.peer = peer; !wire().done(ticket);) engine_.relax(operation_.waiting, operation_.now);
  }

  void combine(std::byte* result, const std::byte* own, const std::byte* staging, std::size_t each) {
    source sources[quick_plan::most_peers + 1];
    for (int i = 0, k = 0; i <= plan_.receives; ++i)
      sources[i] = i == plan_.own_place ? source{own, false} : source{staging + static_cast<std::size_t>(k++) * each, true};
    host_hands::combine(job_.compute, result, sources, plan_.receives + 1, plan_.own.bytes / job_.compute.element_bytes, wire().size());
  }

  engine<T>& engine_;
  const problem& job_;
  operation& operation_;
  const quick_plan& plan_;
};

/// Who runs small calls; nobody where elements do not lie in the host's memory.
template <class T>
struct quick_for {};
template <Pairing T>
struct quick_for<T> {
  using type = quick_run<T>;
};
template <Messaging T>
  requires(!Slotted<T> && !requires(const T t) { t.hands(); })
struct quick_for<T> {
  using type = quick_messages<T>;
};

}  // namespace kolo::inline v0::detail
