// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What touches elements where they lie for a transport; where it makes kernels of its own, a call asks it for them.
#pragma once

#include <kolo/config.hpp>

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

}  // namespace kolo::inline KOLO_ABI::detail::execute
