// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operator over blocks that does not commute.
#pragma once

#include <cstddef>

/// x -> a x + b modulo 256, two bytes: composing n of them.
inline void compose_bytes(const std::byte* in, std::byte* inout, std::size_t n) {
  for (std::size_t i = 0; i < 2 * n; i += 2) {
    const auto a = static_cast<unsigned>(in[i]), b = static_cast<unsigned>(in[i + 1]),
               c = static_cast<unsigned>(inout[i]), d = static_cast<unsigned>(inout[i + 1]);
    inout[i] = static_cast<std::byte>(a * c);
    inout[i + 1] = static_cast<std::byte>(b * c + d);
  }
}
