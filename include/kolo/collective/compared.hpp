// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a call looks like to the other ranks, in checked mode.
#pragma once

#include <kolo/execute/request.hpp>
#include <kolo/transport/call_record.hpp>
#include <kolo/view/view.hpp>

#include <algorithm>
#include <concepts>

namespace kolo::inline v0::detail {

/// Stands where a collective has no operator, or no view.
struct none {};

template <class T, std::size_t N>
void note_type(fixed_text<N>& name, std::uint32_t& hash) {
  name = short_name(type_name<T>());
  hash = type_hash<T>();
}
inline void note_numbers(call_record& r, const problem& job, int size) {
  const auto k = job.collective;
  const bool has_root = k == kind::broadcast || k == kind::reduce || k == kind::gather || k == kind::scatter;
  if (has_root) r.root = std::max(job.root, job.schedule.root);
  r.shape_hash = static_cast<std::uint32_t>(job.schedule.blocks) * 2654435761u + static_cast<std::uint32_t>(job.schedule.rounds);
  r.count = job.count;
  if (!job.send_counts || k == kind::alltoall) return;  // there each rank has counts of its own
  for (int i = 0; i < size; ++i) {
    r.count += job.send_counts[i];
    r.counts_hash = (r.counts_hash ^ job.send_counts[i]) * 1099511628211u + 1;
  }
}

/// What other ranks compare. `Algorithm`: as the caller named it.
template <class Algorithm, class Call>
call_record record_of(const Call& c, int size, call_site site) {
  using In = decltype(c.in);
  using Op = decltype(c.op);
  call_record r{site};
  if constexpr (View<In>) note_type<view_element_t<In>>(r.element, r.element_hash);
  if constexpr (!std::same_as<Op, none>) note_type<Op>(r.op, r.op_hash);
  note_type<Algorithm>(r.algorithm, r.algorithm_hash);
  note_numbers(r, c.job, size);
  return r;
}

// Far from the calls that are not checked.
template <class A, class C, class Call>
[[gnu::cold, gnu::noinline]] void compare(C& comm, const Call& c, const typename C::options& options, call_site site) {
  comm.engine()->compare(name(c.job.collective), record_of<A>(c, comm.size(), site), timeout_of(*comm.engine(), name(c.job.collective), options), subject_of(c.job));
}
template <class A, class C, class Call>
[[gnu::cold, gnu::noinline]] auto comparison_of(C& comm, const Call& c, const typename C::options& options, call_site site) {
  auto& e = *comm.engine();
  return e.comparison_of(name(c.job.collective), record_of<A>(c, comm.size(), site), timeout_of(e, name(c.job.collective), options), subject_of(c.job));
}

}  // namespace kolo::inline v0::detail
