// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a call looks like to the other ranks, in checked mode.
#pragma once

#include <kolo/execute/call_record.hpp>
#include <kolo/execute/request.hpp>
#include <kolo/view/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail {

/// Stands where a collective has no operator, or no view.
struct none {};

/// A type of a call: its name, as the compiler writes it, and a number.
struct named_type {
  std::string_view name{};
  std::uint32_t hash = 0;
};
template <class T>
constexpr named_type named() {
  return {type_name<T>(), type_hash<T>()};
}

/// The types of a call without their types; names are empty where a collective has no such thing. `Algorithm`: as the caller named it.
struct call_types {
  named_type element{}, op{}, algorithm{};
};
template <class In, class Op, class Algorithm>
constexpr call_types types_of_call() {
  call_types t{.algorithm = named<Algorithm>()};
  if constexpr (View<In>) t.element = named<view_element_t<In>>();
  if constexpr (!std::same_as<Op, none>) t.op = named<Op>();
  return t;
}
template <class In, class Op, class Algorithm>
inline constexpr call_types types_of = types_of_call<In, Op, Algorithm>();

template <std::size_t N>
void note_type(const named_type& type, fixed_text<N>& name, std::uint32_t& hash) {
  if (type.name.empty()) return;
  name = short_name(type.name);
  hash = type.hash;
}
inline void note_numbers(call_record& r, const collective_args& args, int size) {
  const auto k = args.collective;
  const bool has_root = k == kind::broadcast || k == kind::reduce || k == kind::gather || k == kind::scatter;
  if (has_root) r.root = std::max(args.root, args.schedule.root);
  r.shape_hash =
      static_cast<std::uint32_t>(args.schedule.blocks) * 2654435761u + static_cast<std::uint32_t>(args.schedule.rounds);
  r.count = args.count;
  if (!args.send_counts || k == kind::alltoall) return;  // there each rank has counts of its own
  for (int i = 0; i < size; ++i) {
    r.count += args.send_counts[i];
    r.counts_hash = (r.counts_hash ^ args.send_counts[i]) * 1099511628211u + 1;
  }
}

/// What other ranks compare.
[[gnu::cold, gnu::noinline]] inline call_record record_of(const call_types& types, const collective_args& args,
                                                          int size, call_site site) {
  call_record r{site};
  note_type(types.element, r.element, r.element_hash);
  note_type(types.op, r.op, r.op_hash);
  note_type(types.algorithm, r.algorithm, r.algorithm_hash);
  note_numbers(r, args, size);
  return r;
}

// Far from the calls that are not checked.
template <class C>
[[gnu::cold, gnu::noinline]] void compare(C& comm, const call_types& types, const collective_args& args,
                                          const typename C::options& options, call_site site) {
  comm.engine()->compare(name(args.collective), record_of(types, args, comm.size(), site),
                         timeout_of(*comm.engine(), name(args.collective), options), subject_of(args));
}
template <class C>
[[gnu::cold, gnu::noinline]] auto comparison_of(C& comm, const call_types& types, const collective_args& args,
                                                const typename C::options& options, call_site site) {
  auto& e = *comm.engine();
  return e.comparison_of(name(args.collective), record_of(types, args, comm.size(), site),
                         timeout_of(e, name(args.collective), options), subject_of(args));
}

}  // namespace kolo::inline KOLO_ABI::detail
