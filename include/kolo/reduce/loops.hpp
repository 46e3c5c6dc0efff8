// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise loops over bytes, in the forms that compilers turn into vector instructions.
#pragma once

#include <kolo/config.hpp>
#include <kolo/reduce/element_access.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#if KOLO_CHOOSES_VECTORS
#include <cpuid.h>
#endif

// clang warns if it cannot vectorise these loops, as with some users' operators. (Both compilers know this pragma and
// -Wpragmas, the warning about unknown warnings.)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wpass-failed"

namespace kolo::inline KOLO_ABI::detail::reduce {

/// The instruction set of a loop: that of the whole program (x86-64: 128-bit vectors), or AVX2 and F16C as well
/// (256-bit vectors, conversions of float16). Both give the same bits, except that the compiler decides which of two
/// NaNs an operator keeps: AVX2 loops use no fused multiply-add, which rounds once where a product and a sum round
/// twice. AVX-512 is not used, because it includes fused multiply-add. (Sums of floats gain nothing by it on a Zen 4;
/// other processors lower their clock.) Loops are not compiled twice if the program is compiled for AVX2, is not
/// optimised, or is compiled by nvcc.
///
/// If the whole program may use fused multiply-add (aarch64; x86-64 with -mfma), KOLO_UNFUSED prevents it in these
/// loops with g++, which would use it for some lengths or alignments and not for others. Only g++ 12 on x86-64 still
/// uses it, if members are alternately added and subtracted. clang uses it for an operator's own `a * b + c`, wherever
/// that is inlined, unless -ffp-contract forbids it.
enum class vectors { as_compiled, avx2 };

/// Whether the processor and the operating system support AVX2 and F16C. Set once, before main(); false until then.
/// Tests may set it to false.
#if KOLO_CHOOSES_VECTORS
inline bool has_avx2 = [] {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}();
#else
inline constexpr bool has_avx2 = false;
#endif

/// Calls f(first, j) for all indices first + j < count; the calls are independent of each other. Chunks have a constant
/// length: g++ -O2 vectorises only loops that need neither a remainder nor a check at run time. The attributes force
/// inlining: no compiler vectorises loops with calls. Other instruction sets than as_compiled process whole chunks
/// only.
template <std::size_t Chunk, vectors Set = vectors::as_compiled, class F>
[[gnu::always_inline]] inline void for_each_index(std::size_t count, const F f) {
  std::size_t i = 0;
  for (; count - i >= Chunk; i += Chunk) {
    KOLO_IVDEP
    for (std::size_t j = 0; j < Chunk; ++j) f(i, j);
  }
  if constexpr (Set == vectors::as_compiled)
    for (std::size_t j = 0; j < count - i; ++j) f(i, j);
}

#if defined(__F16C__)
inline constexpr bool converts_eight = true;
#else
inline constexpr bool converts_eight = false;
#endif
template <vectors Set, class A, class... T>
inline constexpr bool in_eights = (converts_eight || Set == vectors::avx2) && std::same_as<A, float> &&
                                  (InEights<T> || ...) && ((InEights<T> || std::same_as<T, float>)&&...);
template <class T>
inline constexpr bool in_twos = HalfPrecision<T> || std::same_as<T, unzipped>;

/// The type in which an accumulator A is stored between two passes over elements of type T.
template <class T, class A>
using partial_result =
    std::conditional_t<std::same_as<A, float> && HalfPrecision<T> && !(converts_eight && InEights<T>), unzipped, A>;

template <class T>
bool aligned(const std::byte* p) {
  return reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0;
}

template <class T>
inline constexpr bool has_members = std::is_class_v<T> && !in_twos<T>;

/// Bytes that hold elements of type T.
template <class T>
struct bytes_of {
  const std::byte* data;
};

template <class D, class A, class F, class... S>
[[gnu::always_inline]] inline void transform_one(std::byte* dst, std::size_t i, const F f, const bytes_of<S>... from) {
  store<D>(dst, lone_index<D>(i), to<D>(f(to<A>(load<S>(from.data, lone_index<S>(i)))...)));
}

template <vectors Set, class D, class A, class F, class... S>
[[gnu::always_inline]] inline void transform_eights(std::byte* dst, std::size_t count, const F f,
                                                    const bytes_of<S>... from) {
  const auto on_eight = [f](const auto&... e) __attribute__((always_inline)) {
    eight result;
    for (int j = 0; j < 8; ++j) result.x[j] = f(e.x[j]...);
    return result;
  };
  std::size_t i = 0;
  for (; count - i >= 8; i += 8) store_eight<D>(dst, i, on_eight(load_eight<S>(from.data, i)...));
  if constexpr (Set == vectors::as_compiled)
    for (; i < count; ++i) transform_one<D, A>(dst, i, f, from...);
}

template <vectors Set, class D, class A, class F, class... S>
[[gnu::always_inline]] inline void transform_twos(std::byte* dst, std::size_t count, const F f,
                                                  const bytes_of<S>... from) {
  const auto on_two = [f](const auto&... x) __attribute__((always_inline)) {
    return two<D>{to<D>(f(to<A>(x.low)...)), to<D>(f(to<A>(x.high)...))};
  };
  for_each_index<unzipped::pairs, Set>(
      count / 2, [=](std::size_t first, std::size_t j) __attribute__((always_inline)) {
        store_two(dst, first, j, on_two(load_two<S>(from.data, first, j)...));
      });
  if constexpr (Set == vectors::as_compiled)
    if (count % 2 != 0) transform_one<D, A>(dst, count - 1, f, from...);
}

/// The number of elements in a chunk: four 256-bit vectors. (More than four elements: g++ would unroll the loop before
/// it vectorises it.)
template <class D>
inline constexpr std::size_t chunk = in_twos<D> ? 2 * unzipped::pairs
                                                : std::bit_floor(128 / (sizeof(D) < 16 ? sizeof(D) : 16));

template <vectors Set, class D, class A, class F, class... S>
[[gnu::always_inline]] inline void transform_by(std::byte* dst, std::size_t count, const F f,
                                                const bytes_of<S>... from) {
  if constexpr (in_eights<Set, A, D, S...>) {
    transform_eights<Set, D, A>(dst, count, f, from...);
  } else if constexpr (in_twos<D>) {
    transform_twos<Set, D, A>(dst, count, f, from...);
  } else if (has_members<D> && aligned<D>(dst) && (aligned<S>(from.data) && ...)) {
    for_each_index<chunk<D>, Set>(
        count, [=](std::size_t first, std::size_t j) __attribute__((always_inline)) {
          ::new (static_cast<void*>(reinterpret_cast<D*>(dst) + first + j))
              D(to<D>(f(to<A>(S(reinterpret_cast<const S*>(from.data)[first + j]))...)));
        });
  } else {
    for_each_index<chunk<D>, Set>(
        count, [=](std::size_t first, std::size_t j)
                   __attribute__((always_inline)) { transform_one<D, A>(dst, first + j, f, from...); });
  }
}

/// `transform_by` for a whole number of chunks, on a processor with AVX2.
template <class D, class A, class F, class... S>
KOLO_UNFUSED KOLO_TARGET("avx2,f16c")
    [[gnu::noinline]] void transform_chunks(std::byte* dst, std::size_t count, const F f, const bytes_of<S>... from) {
  transform_by<vectors::avx2, D, A>(dst, count, f, from...);
}

/// Whether loops are compiled for AVX2 as well: not if the elements of one source are hardly more than copied.
template <class D, class... S>
inline constexpr bool by_chunks = KOLO_CHOOSES_VECTORS != 0 &&
                                  (sizeof...(S) > 1 || HalfPrecision<D> || (HalfPrecision<S> || ...));

/// Sets dst[i] = f(from[i]...); f takes A (`void`: the source types), and its result is converted to D. `dst` may be
/// one of the sources if their elements have the same size.
///
/// Elements are loaded and stored as bytes: neither their alignment nor their dynamic type matters, and for numbers no
/// access is faster. Elements with members would be copied as blocks of bytes, so aligned ones are accessed as objects.
template <class D, class A = void, class F, class... S>
KOLO_UNFUSED [[gnu::noinline]] void transform(std::byte* dst, std::size_t count, const F f, const bytes_of<S>... from) {
  std::size_t done = 0;
  if constexpr (by_chunks<D, S...>) {
    if (count >= 4 * chunk<D> && has_avx2) {
      done = count - count % chunk<D>;
      transform_chunks<D, A>(dst, done, f, from...);
    }
  }
  transform_by<vectors::as_compiled, D, A>(dst + done * sizeof(D), count - done, f,
                                           bytes_of<S>{from.data + done * sizeof(S)}...);
}

}  // namespace kolo::inline KOLO_ABI::detail::reduce

#pragma GCC diagnostic pop
