// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The signature of a call, which ranks compare in checked mode.
#pragma once

#include <kolo/execute/call_signature.hpp>
#include <kolo/execute/call_types.hpp>
#include <kolo/execute/collective_args.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::execute {

template <std::size_t N>
void sign_type(const named_type& type, fixed_text<N>& name, std::uint32_t& hash) {
  if (type.name.empty()) return;
  name = short_name(type.name);
  hash = type.hash;
}
inline void sign_numbers(call_signature& r, const collective_args& args, int size) {
  const auto k = args.collective;
  if (core::has_root(k)) r.root = std::max(args.root, args.schedule.root);
  r.shape_hash = args.schedule.shape();
  if (k == kind::permutation) r.map_hash = args.fingerprint;
  if (core::is_point_to_point(k)) r.tag = std::int32_t(args.tag >> 32);
  r.count = args.is_empty ? 0 : args.count;
  if (!args.send_counts || k == kind::alltoall) return;  // each rank has counts of its own
  r.count = 0;
  for (int i = 0; i < size; ++i) {
    r.count += args.send_counts[i];
    r.counts_hash = (r.counts_hash ^ args.send_counts[i]) * 1099511628211u + 1;
  }
}

/// The signature that other ranks compare.
[[gnu::cold, gnu::noinline]] inline call_signature signature_of(const call_types& types, const collective_args& args,
                                                                int size, call_site site) {
  call_signature r{site};
  sign_type(types.element, r.element, r.element_hash);
  sign_type(types.op, r.op, r.op_hash);
  sign_type(types.algorithm, r.algorithm, r.algorithm_hash);
  sign_numbers(r, args, size);
  return r;
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
