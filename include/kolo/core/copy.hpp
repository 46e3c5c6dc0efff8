// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies that go past the caches, and how much the largest of these holds.
#pragma once

#include <kolo/config.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
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

/// Bytes of a cache as sysfs says them, with K or M behind; 0: it says nothing. Allocates nothing.
[[gnu::cold, gnu::noinline]] inline std::size_t cache_bytes_in(const char* path) noexcept {
  char text[32]{};
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const bool is_read = ::read(fd, text, sizeof text - 1) > 0;
  ::close(fd);
  if (!is_read) return 0;
  char* unit = text;
  const std::size_t number = std::strtoul(text, &unit, 10);
  return *unit == 'K' ? number << 10 : *unit == 'M' ? number << 20 : number;
}

/// Bytes of the largest cache that the first processor reaches, however many share it; 32 MiB where the system does not
/// say. It is read once. (What sysconf says are all caches of that level of the host.)
inline std::size_t largest_cache_bytes() noexcept {
  static const std::size_t largest = [] {
    std::size_t most = 0;
    for (char path[] = "/sys/devices/system/cpu/cpu0/cache/index0/size", *index = path + sizeof path - 7; *index <= '9';
         ++*index)
      if (const auto bytes = cache_bytes_in(path); bytes > most) most = bytes;
    return most > 0 ? most : std::size_t{32} << 20;
  }();
  return largest;
}

}  // namespace kolo::inline KOLO_ABI::detail::core
