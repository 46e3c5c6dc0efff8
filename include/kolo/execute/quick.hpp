// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small blocking allreduce, where every nanosecond is seen: what a stream would do, without making its plan first.
#pragma once

#include <kolo/execute/agreement.hpp>
#include <kolo/execute/hands.hpp>
#include <kolo/execute/pattern.hpp>

namespace kolo::inline v0::detail {

/// Every rank swaps all that it has with every other, and combines what has come in the order of the ranks; a barrier swaps nothing
/// that matters. Bit for bit what `stream_run` does with the same call, and compatible with it: ranks may differ in which they take.
template <Pairing T>
class quick_run : agreeing<T> {
 public:
  static constexpr int most_ranks = 16;

  static bool can_run(engine<T>& e, const problem& job) {
    const auto& s = job.schedule;
    return s.rounds == 1 && s.blocks == 1 && s.is_stateless && (job.collective == kind::allreduce || job.collective == kind::barrier) &&
           job.in.count - 1 < e.transport.swap_bytes() / job.compute.element_bytes && !job.in.find && !job.out.find && !job.compute.to_wire &&
           !e.oldest && e.transport.size() <= most_ranks &&
           seen(e.notes, s, job.collective, e.transport.size()) == pattern::exchange;
  }

  using agreeing<T>::agreeing;

  void run() {
    const int rank = wire().rank(), size = wire().size();
    const auto bytes = job_.in.count * job_.compute.element_bytes;
    for (int i = 1; i < size; ++i) {
      const int peer = rank + i < size ? rank + i : rank + i - size;
      host_hands::copy(wire().swap_place(peer), job_.in.base, bytes);
      wire().swap(peer, bytes, tag());
    }
    source sources[most_ranks];
    for (int peer = 0; peer < size; ++peer) sources[peer] = peer == rank ? source{job_.in.base, false} : source{await(peer), true};
    if (job_.compute.combine) host_hands::combine(job_.compute, job_.out.base, sources, size, job_.in.count, size);
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) wire().end_swap(peer);
  }

 private:
  using agreeing<T>::wire, agreeing<T>::now, agreeing<T>::tag, agreeing<T>::job_, agreeing<T>::operation_;

  const std::byte* await(int peer) {
    for (;;) {
      const arrived a = this->expected(wire().swapped(peer), peer, job_.in.count);
      if (a.data) return a.data;
      wire().relax(operation_.waiting, now());
      this->look_around();
    }
  }
};

}  // namespace kolo::inline v0::detail
