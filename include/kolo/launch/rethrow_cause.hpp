// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of the exceptions that ranks ended with is the cause of the others.
#pragma once

#include <kolo/core/error.hpp>

#include <exception>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::launch {

/// Rethrows the exception that explains the rest: the first that does not merely report the failure of another rank, or
/// the death of a rank that threw an exception itself.
inline void rethrow_cause(const std::vector<std::exception_ptr>& thrown) {
  const auto is_of_another = [&](const error& e) {
    const auto peer = std::size_t(e.peer());
    return e.code() == errc::peer_failed || e.code() == errc::peer_left ||
           (e.code() == errc::peer_died && peer < thrown.size() && thrown[peer]);
  };
  std::exception_ptr any;
  for (const auto& e : thrown) {
    if (!e) continue;
    if (!any) any = e;
    try {
      std::rethrow_exception(e);
    } catch (const error& consequence) {
      if (!is_of_another(consequence)) throw;
    }
  }
  if (any) std::rethrow_exception(any);
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
