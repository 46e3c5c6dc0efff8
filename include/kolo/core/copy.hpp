// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies that bypass the caches, the choice of when to use them, and the size of the largest cache.
#pragma once

#include <kolo/core/ticks.hpp>

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

/// As memcpy, by vectors of 16 bytes. `PastCache`: with stores that neither read nor keep the lines they write, if the
/// processor has such; other threads see the bytes in order only after `end_past_cache`. Else it fetches lines ahead of
/// those that it copies: a broadcast of 16 KiB to 1 MiB takes 0.85 to 0.98 of the time on an Intel Xeon.
template <bool PastCache>
void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64, ahead = 2 * 1024;
  const auto before = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  const auto store = [](__m128i* at, __m128i x) { PastCache ? _mm_stream_si128(at, x) : _mm_store_si128(at, x); };
  if (bytes >= before + line) {
    std::memcpy(to, from, before);
    to += before, from += before, bytes -= before;
    for (; bytes >= line; to += line, from += line, bytes -= line) {
      if (!PastCache && bytes > ahead) _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T1);
      const auto* source = reinterpret_cast<const __m128i*>(from);
      auto* target = reinterpret_cast<__m128i*>(to);
      const auto a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                 d = _mm_loadu_si128(source + 3);
      store(target, a);
      store(target + 1, b);
      store(target + 2, c);
      store(target + 3, d);
    }
  }
#endif
  std::memcpy(to, from, bytes);
}
inline void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_by_vectors<true>(to, from, bytes);
}
/// For bytes that another core wrote and will write again. memcpy may be `rep movs` from 2 KiB on; lines that this core
/// has read so take the other one up to three times as long to write (AMD Zen 4, cores that share the last cache).
inline void copy_from_ring(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_by_vectors<false>(to, from, bytes);
}

inline void end_past_cache() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Reads the beginning of a file, up to N - 1 bytes and a zero; empty: not available. Allocates nothing.
template <std::size_t N>
void read_text(const char* path, char (&text)[N]) noexcept {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  const auto length = fd < 0 ? 0 : ::read(fd, text, N - 1);
  if (fd >= 0) ::close(fd);
  text[length > 0 ? length : 0] = 0;
}

/// The size of a cache in bytes, from sysfs, where it ends with K or M; 0: not available.
[[gnu::cold, gnu::noinline]] inline std::size_t cache_bytes_in(const char* path) noexcept {
  char text[32], *unit = text;
  read_text(path, text);
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

/// How the bytes of a piece were stored, if one_way_copy has chosen and timed it.
enum class stored_by : std::uint8_t { untimed = 0, slot, ring, past_cache };

/// The time per byte of each way that one_way_copy may choose, in any unit; 0: not known. A shorter time counts at
/// once, a longer one gradually: the thread may have been interrupted.
struct time_of_ways {
  float each_byte[3]{};

  float& of(stored_by way) { return each_byte[int(way) - 1]; }
  void took(stored_by way, float time) {
    auto& t = of(way);
    t = t == 0 || time < t ? time : t + (time - t) / 8;
  }
};

/// Chooses, for copies into memory that one other core has read since it was written, between a few slots, a ring so
/// long that the reader's cache has dropped a line before it is written again (if there is one), and bypassing the
/// caches. Taking a line back costs nothing if both cores share their caches, 8 ns if they share the last one, 28 ns if
/// they share none; in a ring 2 ns if they share the last one. Bypassing costs 1 to 2.3 ns, but the reader then fetches
/// from memory. No processor reports which case it is, and virtual ones change it; so copies and reads are timed, and
/// now and then another way is tried, so rarely that this costs little.
class one_way_copy {
 public:
  /// Bytes. Shorter copies go through the caches: reading the clock would cost as much.
  static constexpr std::size_t least_timed = 4 * 1024;

#if defined(__SSE2__)
  static constexpr bool is_timed = true;
#else
  static constexpr bool is_timed = false;
#endif

  /// The next copy, of that many bytes, goes this way: first each way once, then the one with which writer and reader
  /// together take least, and another one each 32nd time, or less often if it takes at least twice as long.
  stored_by choose(std::size_t bytes, bool has_ring = false) {
    return chosen_ = is_timed && bytes >= least_timed ? next(has_ring) : stored_by::untimed;
  }

  /// Calls `copy(past_cache)`, which copies that many bytes, as chosen before. Returns the way, if it was timed.
  template <class F>
  stored_by operator()(std::size_t bytes, F copy) {
    if (bytes < least_timed || chosen_ == stored_by::untimed) return copy(false), stored_by::untimed;
    const auto begin = ticks();
    copy(chosen_ == stored_by::past_cache);
    took(chosen_, float(ticks() - begin) / float(bytes));
    return chosen_;
  }

  void took(stored_by way, float each_byte) { written_.took(way, each_byte); }
  /// What the reader takes for a byte, as it reports; 0: it has not reported it.
  void reader_takes(stored_by way, float each_byte) { read_.of(way) = each_byte; }

 private:
  stored_by next(bool has_ring) {
    constexpr stored_by all[]{stored_by::slot, stored_by::past_cache, stored_by::ring};
    const std::uint32_t ways = has_ring ? 3 : 2, n = copies_++;
    if (n < ways) return all[n];
    std::uint32_t best = 0;
    for (std::uint32_t i = 1; i < ways; ++i)
      if (cost(all[i]) < cost(all[best])) best = i;
    if (n < next_try_) return all[best];
    const auto other = all[(best + 1 + (ways > 2 ? tries_++ % 2 : 0)) % ways];
    const auto slower = cost(other) / cost(all[best]);
    next_try_ = n + 32 * (slower < 8 ? std::uint32_t(slower) : 8);
    return other;
  }
  /// From memory a reader takes as long again, unless it reports something else.
  float cost(stored_by way) {
    const auto written = written_.of(way), read = read_.of(way);
    return written + (read == 0 && way == stored_by::past_cache ? written : read);
  }

  time_of_ways written_{}, read_{};
  std::uint32_t copies_ = 0, next_try_ = 32, tries_ = 0;
  stored_by chosen_ = stored_by::untimed;
};

}  // namespace kolo::inline KOLO_ABI::detail::core
