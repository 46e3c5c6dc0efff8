// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise loops over bytes, in the forms that compilers turn into vector instructions.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/element.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

// Some users' operators cannot be vectorised, which is no reason for clang to warn about our loops. (The names of this pragma
// and of the warning about unknown warnings are understood by both compilers.)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wpass-failed"

namespace kolo::inline v0::detail {

template <class T>
T load(const std::byte* from, std::size_t i) {
  if constexpr (std::is_trivially_default_constructible_v<T>) {
    T x;
    std::memcpy(&x, from + i * sizeof(T), sizeof(T));
    return x;
  } else {
    struct bytes { std::byte of[sizeof(T)]; } x;
    std::memcpy(&x, from + i * sizeof(T), sizeof(T));
    return __builtin_bit_cast(T, x);
  }
}

template <class T>
void store(std::byte* to, std::size_t i, const T& x) { std::memcpy(to + i * sizeof(T), &x, sizeof(T)); }

/// A number of another type; the way from one type of 16 bits to something else leads through float.
template <class To, class From>
constexpr To to(const From& x) {
  if constexpr (accumulate_in_float<From> && !std::same_as<From, To>) return static_cast<To>(static_cast<float>(x));
  else return static_cast<To>(x);
}

/// f(0), f(1), ... f(count - 1), which are independent of each other. In chunks of constant length: g++ -O2 makes vector
/// instructions only of loops that need neither a remainder nor a check at run time.
template <std::size_t Chunk, class F>
void for_each_index(std::size_t count, const F f) {
  std::size_t i = 0;
  for (; count - i >= Chunk; i += Chunk) {
    KOLO_IVDEP
    for (std::size_t j = 0; j < Chunk; ++j) f(i + j);
  }
  for (; i < count; ++i) f(i);
}

/// Two neighbours of 16 bits as one number of 32, so that to widen and to narrow takes shifts and masks, and no shuffling. Which
/// of the two comes first in memory does not matter as long as it is the same for all.
template <class T>
struct pair_of {
  T low, high;
};
template <HalfPrecision T>
pair_of<T> load_pair(const std::byte* from, std::size_t i) {
  const auto both = load<std::uint32_t>(from, i);
  return {__builtin_bit_cast(T, static_cast<std::uint16_t>(both)), __builtin_bit_cast(T, static_cast<std::uint16_t>(both >> 16))};
}
template <HalfPrecision T>
void store_pair(std::byte* to, std::size_t i, T low, T high) {
  store(to, i, std::uint32_t{__builtin_bit_cast(std::uint16_t, low)} | std::uint32_t{__builtin_bit_cast(std::uint16_t, high)} << 16);
}

template <class T>
bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0; }

/// dst[i] = f(a[i]...). `dst` may be one of the sources, if their elements have the same size.
///
/// Elements are copied in and out, so that neither alignment nor the type of what lies there matters. That is as fast as it gets
/// for numbers, but of a class it makes one block of bytes: if aligned, its members are accessed one by one.
template <class D, class... A, class F>
[[gnu::noinline]] void transform(std::byte* dst, std::size_t count, const F f, const std::type_identity_t<A>*...) = delete;

template <class D, class F, class... A>
struct transformer;

}  // namespace kolo::inline v0::detail

#pragma GCC diagnostic pop
