// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo's reductions on elements whose type and operator are known at run time only: what the typed calls do, from the kernel on.
#pragma once

#include <kolo/kolo.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace under_mpi {

/// Where the elements are; of a rank that has none, `data` may be null.
struct elements {
  void* data;
  std::size_t count;
};

/// Before  as kolo::allreduce, reduce, scan or reduce_scatter (K) has it. `counts`, of a reduce_scatter: elements of each rank, equal on all ranks.
///         `op`: a number for the operator, by which ranks that combine by different ones notice it.
/// After   as there; the result lies in `out`, which of a reduce matters on the root only.
/// Cost    that of the algorithm that is predicted to be the fastest.
/// Order   that of the ranks where the operator does not commute.
/// Errors  kolo::error.
template <kolo::kind K, bool Commutes, class Comm>
void combine(Comm& comm, const kolo::kernel& compute, std::uint32_t op, elements in, elements out, int root = 0,
             std::span<const std::size_t> counts = {}) {
  using namespace kolo::detail;
  auto& engine = *comm.engine();
  begin_call(engine);
  const auto bytes = compute.element_bytes;
  const kolo::forwarded<kolo::binomial::reduce> ends_at_root{root};  // ranks must not be rotated out of their order
  constexpr bool is_forwarded = K == kolo::kind::reduce && !Commutes;
  collective_args args;
  args.collective = K;
  args.in = {.base = static_cast<std::byte*>(in.data), .count = in.count, .element_bytes = bytes};
  args.out = {.base = static_cast<std::byte*>(out.data), .count = out.count, .element_bytes = bytes};
  args.compute = compute;
  args.count = in.count;
  args.send_counts = counts.empty() ? nullptr : counts.data();
  if constexpr (is_forwarded) args.schedule = erase_schedule(ends_at_root, comm.size());
  else args.root = root;
  const call_traits traits{
      .how = {K, Commutes, kolo::order::fixed_for_size, false, &candidates_in<K, typename Comm::transport_type>},
      .is_automatic = !is_forwarded,
      .types = static_cast<std::uint32_t>(2 * bytes + Commutes) + op * 2654435761u};
  prepare_call(engine, args, traits, in.count, root);
  run_call(engine, args, {}, {}, kolo::call_site::here());
}

}  // namespace under_mpi
