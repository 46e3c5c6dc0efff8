// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel of an element type and an operator for the place where a transport's elements lie.
#pragma once

#include <kolo/reduce/kernel.hpp>

#include <utility>

namespace kolo::inline KOLO_ABI::detail::execute {

/// What touches elements where they lie for a transport (execute/executor.hpp); void: the host. Where a transport is
/// known by its name alone, this says it.
template <class TransportType>
struct executor_type {
  using type = void;
};
template <class TransportType>
  requires requires(const TransportType& t) { t.executor(); }
struct executor_type<TransportType> {
  using type = decltype(std::declval<const TransportType&>().executor());
};

/// The executor makes the kernel, if it makes kernels. Refers to `op`.
template <class TransportType, Element T, class Op>
kernel kernel_for(const Op& op) {
  using executor = typename executor_type<TransportType>::type;
  if constexpr (requires { executor::template make_kernel<T>(op); }) return executor::template make_kernel<T>(op);
  else return kolo::make_kernel<T>(op);
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
