// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of the floor, with the widest vectors that the compiler may use, and their kinds of stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace kolo_bench::loops {

#if defined(__AVX512F__)
inline constexpr const char* instructions = "AVX-512";
using vector = __m512;
inline vector load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, vector v) { _mm512_storeu_ps(p, v); }
inline void stream(float* p, vector v) { _mm512_stream_ps(p, v); }
#elif defined(__AVX__)
inline constexpr const char* instructions = "AVX";
using vector = __m256;
inline vector load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, vector v) { _mm256_storeu_ps(p, v); }
inline void stream(float* p, vector v) { _mm256_stream_ps(p, v); }
#else
inline constexpr const char* instructions = "SSE2";
using vector = __m128;
inline vector load(const float* p) { return _mm_loadu_ps(p); }
inline void store(float* p, vector v) { _mm_storeu_ps(p, v); }
inline void stream(float* p, vector v) { _mm_stream_ps(p, v); }
#endif

/// plain: ordinary stores; streamed: past the caches; moved: tile by tile with `rep movsb`, which processors may run without fetching the lines that it
/// overwrites. (A prefetch for writing before a plain store into the peer's lines was never the fastest on Zen 4.)
enum class storing { plain, streamed, moved };

inline constexpr std::size_t line = 16, tile = 1024;  // floats

inline void move_bytes(const float* from, float* to, std::size_t n) {
  n *= sizeof(float);
  asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
}

template <storing How>
void put(float* p, vector v) {
  if constexpr (How == storing::streamed) stream(p, v);
  else store(p, v);
}

inline bool is_on_a_line(const float* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

template <storing How = storing::plain>
void add(const float* a, const float* b, float* to, std::size_t n) {
  constexpr std::size_t lanes = sizeof(vector) / sizeof(float), step = 4 * lanes;
  std::size_t i = 0;
  if constexpr (How == storing::streamed)
    if (!is_on_a_line(to)) return add(a, b, to, n);
  for (; i + step <= n; i += step) {
    vector x[4];
    for (std::size_t j = 0; j < 4; ++j) x[j] = load(a + i + j * lanes) + load(b + i + j * lanes);
    for (std::size_t j = 0; j < 4; ++j) put<How>(to + i + j * lanes, x[j]);
  }
  for (; i < n; ++i) to[i] = a[i] + b[i];
}

template <storing How = storing::plain>
void copy(const float* from, float* to, std::size_t n) {
  constexpr std::size_t lanes = sizeof(vector) / sizeof(float), step = 4 * lanes;
  std::size_t i = 0;
  if constexpr (How == storing::moved) return move_bytes(from, to, n);
  if constexpr (How == storing::streamed)
    if (!is_on_a_line(to)) return copy(from, to, n);
  for (; i + step <= n; i += step) {
    vector x[4];
    for (std::size_t j = 0; j < 4; ++j) x[j] = load(from + i + j * lanes);
    for (std::size_t j = 0; j < 4; ++j) put<How>(to + i + j * lanes, x[j]);
  }
  for (; i < n; ++i) to[i] = from[i];
}

/// a + b to two places, each element loaded and added once. At most one of the two is moved.
template <storing First, storing Second>
void add_to_both(const float* a, const float* b, float* first, float* second, std::size_t n) {
  constexpr std::size_t lanes = sizeof(vector) / sizeof(float), vectors = line / lanes;
  std::size_t i = 0;
  if constexpr (First == storing::moved) {
    return add_to_both<Second, First>(a, b, second, first, n);
  } else if constexpr (Second == storing::moved) {
    for (; i < n; i += tile) {
      const auto some = n - i < tile ? n - i : tile;
      add<First>(a + i, b + i, first + i, some);
      move_bytes(first + i, second + i, some);
    }
  } else {
    if constexpr (First == storing::streamed || Second == storing::streamed)
      if (!is_on_a_line(first) || !is_on_a_line(second))
        return add_to_both<storing::plain, storing::plain>(a, b, first, second, n);
    for (; i + line <= n; i += line) {
      vector x[vectors];
      for (std::size_t j = 0; j < vectors; ++j) x[j] = load(a + i + j * lanes) + load(b + i + j * lanes);
      for (std::size_t j = 0; j < vectors; ++j) put<First>(first + i + j * lanes, x[j]);
      for (std::size_t j = 0; j < vectors; ++j) put<Second>(second + i + j * lanes, x[j]);
    }
    for (; i < n; ++i) first[i] = second[i] = a[i] + b[i];
  }
}

/// Streamed stores are visible in order only after this.
template <storing... Hows>
void settle_stores() {
  if constexpr (((Hows == storing::streamed) || ...)) _mm_sfence();
}

}  // namespace kolo_bench::loops
