// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel of an element type and an operator for the place where a transport's elements lie.
#pragma once

#include <kolo/reduce/kernel.hpp>
#include <kolo/view/memory.hpp>

namespace kolo::inline KOLO_ABI::detail {

/// Elements that lie on a device are combined by the transport's executor (execute/executor.hpp), and it makes the kernel. Refers to `op`.
template <class TransportType, Element T, class Op>
kernel kernel_for(const Op& op) {
  if constexpr (space_of<TransportType> == memory_space::device) {
    using executor = decltype(std::declval<const TransportType&>().executor());
    if constexpr (requires { executor::template make_kernel<T>(op); }) return executor::template make_kernel<T>(op);
    else return kolo::make_kernel<T>(op);
  } else {
    return kolo::make_kernel<T>(op);
  }
}

}  // namespace kolo::inline KOLO_ABI::detail
