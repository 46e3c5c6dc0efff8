// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of a call on elements of a run-time type that are known only when it is made: its kernel, and what ranks
// compare.
#pragma once

#include <kolo/collective/call.hpp>
#include <kolo/reduce/reduction.hpp>

#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::collective {

inline constexpr const char* uncountable_bytes = "the view has more bytes than can be counted";

/// Makes the checks that the types of a call would make at compile time.
template <kind K, class C, class Call>
kernel untyped_kernel(C& comm, const Call& c) {
  const std::size_t bytes = c.in.element_bytes();
  require(comm, K, bytes > 0, "an element has no bytes: name its type, or how many it has");
  const auto can_be_counted = [bytes](const auto& view) { return view.size() <= SIZE_MAX / bytes; };
  require(comm, K, can_be_counted(c.in), uncountable_bytes);
  if constexpr (UntypedView<decltype(c.out)>)
    require(comm, K, c.in.type() == c.out.type() && bytes == c.out.element_bytes(),
            "in and out have elements of different types");
  if constexpr (UntypedView<decltype(c.out)>) require(comm, K, can_be_counted(c.out), uncountable_bytes);
  if constexpr (std::same_as<decltype(c.op), execute::none>) {
    return {.element_bytes = bytes, .wire_bytes = bytes};
  } else {
    kernel k;
    if constexpr (std::same_as<decltype(c.op), reduction>) {
      k = make_kernel(c.in.type(), c.op);
      require(comm, K, k.combine, "this reduction is not defined on elements of this type");
    } else {
      k = c.op.kernel();
      require(comm, K, k.combine && k.element_bytes == bytes, "the kernel combines elements of another size, or none");
      require(comm, K, c.op.commutative || !k.commutes,
              "by_kernel<false> does not commute, and its block_function says that it does: say `false` there, too");
    }
    if constexpr (K == kind::scan || K == kind::exclusive_scan)
      require(comm, K, !k.finishes, "a scan has no average: use kolo::reduction::sum");
    return k;
  }
}

/// A number of the operator, the same on all ranks.
inline std::uint32_t number_of(execute::none) { return 0; }
inline std::uint32_t number_of(reduction op) { return std::uint32_t(op) + 1; }
template <bool Commutes>
std::uint32_t number_of(const by_kernel<Commutes>& op) {
  return op.id();
}

/// The same for an element's type and length.
std::uint32_t number_of(const UntypedView auto& x) {
  const auto both = std::uint64_t{x.element_bytes()} << 8 | std::uint64_t(x.type());
  return std::uint32_t(both * 0x9e3779b97f4a7c15u >> 32);
}

template <class In, class Op>
execute::call_traits untyped_traits(execute::call_traits traits, const In& in, const Op& op) {
  traits.types ^= number_of(in) ^ number_of(op) * 2246822519u;
  return traits;
}

template <class In, class Op>
execute::call_types untyped_types(execute::call_types types, const In& in, const Op& op) {
  types.element = {name(in.type()), number_of(in)};
  if constexpr (std::same_as<Op, reduction>) types.op.name = name(op);
  types.op.hash ^= number_of(op);
  return types;
}

}  // namespace kolo::inline KOLO_ABI::detail::collective
