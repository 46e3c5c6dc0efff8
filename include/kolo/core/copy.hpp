// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies that go past the cache.
#pragma once

#include <kolo/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kolo::inline KOLO_ABI::detail::core {

/// As memcpy, with stores that neither read the lines they write nor keep them; an ordinary copy where the processor
/// has none. Other threads see the bytes in order only after `end_past_cache`.
inline void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64;
  const auto before = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (bytes >= before + line) {
    std::memcpy(to, from, before);
    to += before, from += before, bytes -= before;
    for (; bytes >= line; to += line, from += line, bytes -= line) {
      const auto* source = reinterpret_cast<const __m128i*>(from);
      auto* target = reinterpret_cast<__m128i*>(to);
      const auto a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                 d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
  }
#endif
  std::memcpy(to, from, bytes);
}

inline void end_past_cache() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace kolo::inline KOLO_ABI::detail::core
