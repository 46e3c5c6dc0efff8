// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A hash of values that must be equal on all ranks.
#pragma once

#include <kolo/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kolo::inline KOLO_ABI::detail::core {

/// A hash that ranks compare: it differs if ranks add different values, or add them in a different order.
struct digest {
  std::uint64_t value = 1;  ///< not 0, which would not change if zeros were added

  void add(const auto&... x) {
    ((value = (value ^ std::uint64_t(x)) * 0x9e3779b97f4a7c15u, value ^= value >> 29), ...);
  }
  /// Adds elements as bytes, eight at a time, the last ones with zeros. (`std::hash` may differ between ranks that are
  /// built with different standard libraries.)
  void add_bytes(const auto& elements) {
    for (auto left = std::as_bytes(std::span{elements}); !left.empty();) {
      std::uint64_t next = 0;
      const auto some = left.first(std::min(left.size(), sizeof next));
      std::memcpy(&next, some.data(), some.size());
      add(next);
      left = left.subspan(some.size());
    }
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::core
