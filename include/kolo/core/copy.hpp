// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies that bypass the caches, the choice of when to use them, and the size of the largest cache.
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

/// As memcpy, with stores that neither read nor keep the lines they write; an ordinary copy if the processor has none.
/// Other threads see the bytes in order only after `end_past_cache`.
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

/// The size of a cache in bytes, from sysfs, where it ends with K or M; 0: not available. Allocates nothing.
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

/// Bytes of the largest cache that the first processor reaches, however many share it; 32 MiB if the system does not
/// report it. Read once. (sysconf reports the sum of all caches of that level of the host.)
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

/// Chooses, for copies into lines that one other core has read since they were written, between the caches and
/// bypassing them. Taking such a line back costs nothing if both cores share a first-level cache, and up to 28 ns if
/// they share none; bypassing costs 1 to 2.3 ns, but the reader then fetches from memory. No processor reports which
/// case it is, and virtual ones change it; so each copy is timed, and now and then the other way is tried.
class one_way_copy {
 public:
  /// Bytes. Shorter copies go through the caches: reading the clock would cost as much.
  static constexpr std::size_t least_timed = 4 * 1024;

  /// Calls `copy(past_cache)`, which copies that many bytes.
  template <class F>
  void operator()([[maybe_unused]] std::size_t bytes, F copy) {
#if defined(__SSE2__)
    if (bytes >= least_timed) {
      const bool past_cache = next();
      const auto begin = __builtin_ia32_rdtsc();
      copy(past_cache);
      return took(past_cache, float(__builtin_ia32_rdtsc() - begin) / float(bytes));
    }
#endif
    copy(false);
  }

  /// Whether the next copy bypasses the caches: first each way once, then the cheaper one, and each 32nd time the other
  /// one.
  bool next() {
    const auto n = copies_++;
    if (n < 2) return n == 1;
    return (time_[1] < time_[0]) != (n % 32 == 0);
  }
  /// Records the time per byte, in any unit. A shorter time counts at once, a longer one gradually: the thread may have
  /// been interrupted.
  void took(bool past_cache, float each_byte) {
    auto& t = time_[past_cache];
    t = copies_ <= 2 || each_byte < t ? each_byte : t + (each_byte - t) / 8;
  }

 private:
  float time_[2]{};
  std::uint32_t copies_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::core
