// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small blocking call, where every nanosecond is seen: what a stream would do, by a plan that is made once.
#pragma once

#include <kolo/execute/agreement.hpp>
#include <kolo/execute/hands.hpp>
#include <kolo/execute/layout.hpp>
#include <kolo/execute/pattern.hpp>

namespace kolo::inline v0::detail {

/// What is written down of it (see flight_recorder).
inline flight_subject subject_of(const problem& job) { return {job.collective, job.schedule.rounds, job.count * job.compute.element_bytes}; }

/// One round of at most one small piece for each peer, contiguous everywhere: offsets and lengths, in bytes. What follows from the
/// numbers of a call alone, so that calls that look alike share it.
struct quick_plan {
  static constexpr int most_peers = 15;
  struct leg {
    int peer;
    bool swaps;
    std::uint32_t offset, bytes;
  };
  struct copy {
    std::size_t from, to, bytes;
  };

  const void* schedule;  // the key
  std::size_t count, element_bytes;
  kind collective;
  int root;

  flight_subject subject;

  bool is_usable, combines;
  std::uint8_t sends, receives, own_place;  ///< own_place: of this rank's operand among the sources
  copy own;                                 ///< what stays here; or, where it combines, operand, result and their length
  leg out[most_peers], in[most_peers];      ///< in: where it combines, in the order of combination

  bool is_for(const problem& job) const {
    return schedule == reinterpret_cast<const void*>(job.schedule.at) && count == job.count && root == job.root &&
           collective == job.collective && element_bytes == job.compute.element_bytes;
  }
};

/// Makes plans.
class quick_planner : layout {
 public:
  quick_planner(const problem& job, int rank, int size, std::size_t swap_bytes, pattern found, quick_plan& plan)
      : plan_{plan}, swap_bytes_{swap_bytes}, exchanges_{found == pattern::exchange} {
    plan = {.schedule = reinterpret_cast<const void*>(job.schedule.at), .count = job.count, .element_bytes = job.compute.element_bytes,
            .collective = job.collective, .root = job.root, .subject = subject_of(job), .is_usable = false, .combines = false, .sends = 0, .receives = 0, .own_place = 0,
            .own = {}, .out = {}, .in = {}};
    if (found != pattern::one_way && found != pattern::exchange) return;
    describe(job, rank, size, job.count * job.compute.element_bytes + 1);
    const simple_round round{job.schedule.at(job.schedule.self, virtual_rank(), size, 0), virtual_rank(), job.collective};
    const transfer& t = round.main;
    plan.is_usable = true;
    plan.combines = t.then != arrival::replace && t.from.count > 0;
    for (int i = 0; i < t.to.count; ++i) add_send(t, i);
    if (round.has_local) keep(block_of(round.local.send, 0, 0), block_of(round.local.receive, 0, 0));
    if (const int own = virtual_rank(); holds_part(own)) keep(own, own);
    if (plan.combines) {
      combine(t);
      return;
    }
    for (int i = 0; i < t.from.count; ++i) add_receipt(t, i);
  }

 private:
  std::size_t bytes(int b) const { return whole(b).count * job_->compute.element_bytes; }
  std::size_t offset(const place& p) {
    plan_.is_usable &= p.where == &job_->in || p.where == &job_->out;
    return p.first * job_->compute.element_bytes;
  }

  void add_send(const transfer& t, int i) {
    const int b = block_of(t.send, 0, i);
    if (bytes(b) > 0) plan_.out[plan_.sends++] = leg(t.to.at(i, size()), t, i, offset(source_of(b, 0)), bytes(b));
  }
  void add_receipt(const transfer& t, int i) {
    const int b = block_of(t.receive, 0, i);
    if (bytes(b) > 0) plan_.in[plan_.receives++] = leg(t.from.at(i, size()), t, i, offset(home(b, 0)), bytes(b));
  }
  quick_plan::leg leg(int peer, const transfer& t, int i, std::size_t at, std::size_t n) {
    const auto sent = bytes(block_of(t.send, 0, i)), received = bytes(block_of(t.receive, 0, i));
    return {real(peer), exchanges_ && swaps(sent, received, swap_bytes_), static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(n)};
  }

  void keep(int from, int to) { plan_.own = {offset(source_of(from, 0)), offset(home(to, 0)), bytes(from)}; }

  void combine(const transfer& t) {
    const int b = block_of(t.receive, 0, 0);
    if (bytes(b) == 0) return void(plan_.combines = false);
    plan_.own = {offset(source_of(b, 0)), offset(home(b, 0)), bytes(b)};
    source order[quick_plan::most_peers + 1];
    std::byte which[quick_plan::most_peers];
    arrange_sources(t.from, t.then, virtual_rank(), size(), order, [&](int i) { return which + i; });
    for (int i = 0; i <= t.from.count; ++i) {
      if (order[i].data) add_receipt(t, static_cast<int>(order[i].data - which));
      else plan_.own_place = static_cast<std::uint8_t>(i);
    }
  }

  quick_plan& plan_;
  std::size_t swap_bytes_;
  bool exchanges_;
};

/// May a plan stand for the call, on a wire that carries pieces of so many bytes at once?
template <Transport T>
bool is_quick(const engine<T>& e, const problem& job, std::size_t most_bytes) {
  const auto& s = job.schedule;
  return s.rounds == 1 && s.is_stateless && !job.native && job.count * job.compute.element_bytes <= most_bytes && !job.in.find && !job.out.find &&
         !job.send_counts && !job.receive_counts && !job.compute.to_wire && !job.then && !e.oldest && e.transport.size() <= quick_plan::most_peers + 1;
}

/// `swap_bytes`: of a Pairing wire; else 0.
template <Transport T>
const quick_plan& quick_plan_for(engine<T>& e, const problem& job, std::size_t swap_bytes) {
  constexpr std::size_t remembered = 32;
  const bool is_new = !e.plans.at_least(0);
  auto* const plans = reinterpret_cast<quick_plan*>(e.plans.at_least(remembered * sizeof(quick_plan)));
  if (is_new) std::uninitialized_fill_n(plans, remembered, quick_plan{});
  const auto mixed = reinterpret_cast<std::uintptr_t>(job.schedule.at) / 16 + job.count + static_cast<std::size_t>(job.root);
  auto& plan = plans[mixed % remembered];
  if (!plan.is_for(job)) {
    const auto& t = e.transport;
    quick_planner{job, t.rank(), t.size(), swap_bytes, recognise(job.schedule, job.collective, t.size()), plan};
  }
  return plan;
}

/// Runs them. Bit for bit and byte for byte what `stream_run` does with the same call, so ranks may differ in which of the two they take.
template <Pairing T>
class quick_run : agreeing<T> {
 public:
  static bool can_run(engine<T>& e, const problem& job) { return has_slots(e.transport) && is_quick(e, job, e.transport.swap_bytes()); }
  static const quick_plan& plan_for(engine<T>& e, const problem& job) { return quick_plan_for(e, job, e.transport.swap_bytes()); }

  quick_run(engine<T>& e, const problem& job, operation& o, const quick_plan& plan) : agreeing<T>{e, job, o}, plan_{plan} {}

  void run() {
    try {
      exchange();
    } catch (...) {
      for (int i = 0; i < plan_.receives; ++i)
        if (!plan_.in[i].swaps) wire().let_go(plan_.in[i].peer);  // what it has taken while it waited for others
      throw;
    }
  }

 private:
  using agreeing<T>::wire, agreeing<T>::now, agreeing<T>::tag, agreeing<T>::engine_, agreeing<T>::job_, agreeing<T>::operation_;

  void exchange() {
    for (int i = 0; i < plan_.sends; ++i) send(plan_.out[i]);
    auto* const result = job_.out.base + plan_.own.to;
    auto* const operand = job_.in.base + plan_.own.from;
    if (plan_.combines) {
      source sources[quick_plan::most_peers + 1];
      int k = 0;
      for (int i = 0; i <= plan_.receives; ++i)
        sources[i] = i == plan_.own_place ? source{operand, false} : source{await(plan_.in[k++]), true};
      host_hands::combine(job_.compute, result, sources, plan_.receives + 1, plan_.own.bytes / job_.compute.element_bytes, wire().size());
    } else {
      if (plan_.own.bytes > 0 && result != operand) host_hands::copy(result, operand, plan_.own.bytes);
      for (int i = 0; i < plan_.receives; ++i) host_hands::copy(job_.out.base + plan_.in[i].offset, await(plan_.in[i]), plan_.in[i].bytes);
    }
    for (int i = 0; i < plan_.receives; ++i)
      if (const auto& l = plan_.in[i]; !l.swaps && this->may_refer(l.bytes)) this->confirm(l.peer);
    for (int i = 0; i < plan_.receives; ++i) plan_.in[i].swaps ? wire().end_swap(plan_.in[i].peer) : wire().release(plan_.in[i].peer);
  }

  void send(const quick_plan::leg& l) {
    auto* to = l.swaps ? wire().swap_place(l.peer) : wire().reserve(l.peer);
    for (now().peer = l.peer; !to; to = wire().reserve(l.peer)) wait();
    host_hands::copy(to, job_.in.base + l.offset, l.bytes);
    l.swaps ? wire().swap(l.peer, l.bytes, tag()) : void(wire().commit(l.peer, l.bytes, tag()));
  }

  const std::byte* await(const quick_plan::leg& l) {
    for (;;) {
      arrived a = l.swaps ? wire().swapped(l.peer) : wire().peek(l.peer);
      if (a.data && (a.tag != tag() || a.bytes != l.bytes)) this->disagree(l.peer, a);
      if (a.data && !l.swaps) a = wire().take(l.peer);
      if (a.data) return a.data;
      now().peer = l.peer;
      wait();
    }
  }
  void wait() {
    engine_.relax(operation_.waiting, now());
    this->look_around();
  }

  const quick_plan& plan_;
};

}  // namespace kolo::inline v0::detail
