// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The executor type of a transport; if it makes kernels of its own, a call uses those.
#pragma once

#include <kolo/config.hpp>

#include <utility>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The executor type of a transport (execute/executor.hpp); void: the host. Specialised for a transport that is only
/// declared.
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
