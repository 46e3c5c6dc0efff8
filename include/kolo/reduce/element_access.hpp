// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores elements as bytes at any alignment: one, two or eight at a time.
#pragma once

#include <kolo/core/uninitialized.hpp>
#include <kolo/view/element.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kolo::inline KOLO_ABI::detail::reduce {

template <class T>
[[gnu::always_inline]] inline T load(const std::byte* from, std::size_t i) {
  if constexpr (std::is_trivially_default_constructible_v<T>) {
    T x;
    std::memcpy(static_cast<void*>(&x), from + i * sizeof(T), sizeof(T));
    return x;
  } else {
    core::uninitialized<T> x;
    std::memcpy(static_cast<void*>(&x.value), from + i * sizeof(T), sizeof(T));
    return x.value;
  }
}

template <class T>
[[gnu::always_inline]] inline void store(std::byte* to, std::size_t i, const T& x) {
  std::memcpy(to + i * sizeof(T), &x, sizeof(T));
}

/// Converts x to another number type, between two 16-bit types through float. To = void: returns x unchanged.
template <class To, class From>
[[gnu::always_inline]] constexpr auto to(const From& x) {
  if constexpr (std::is_void_v<To>) return x;
  else if constexpr (accumulate_in_float<From> && !std::same_as<From, To>) return static_cast<To>(float(x));
  else return static_cast<To>(x);
}

/// Two adjacent elements. Two 16-bit elements are loaded and stored as one 32-bit number, so that widening and
/// narrowing need shifts and masks, but no shuffles.
template <class T>
struct two {
  T low, high;
};

/// A float that represents a 16-bit element until all sources are combined. Each block of `pairs` pairs stores its low
/// elements first, then its high ones; this needs no shuffles either.
class unzipped {
 public:
  static constexpr std::size_t pairs = 32;
  unzipped() = default;
  explicit unzipped(float x) : value_{x} {}
  explicit operator float() const { return value_; }

 private:
  float value_;
};

template <class T>
[[gnu::always_inline]] inline two<T> load_two(const std::byte* from, std::size_t first, std::size_t j) {
  if constexpr (std::same_as<T, unzipped>) {
    return {load<T>(from, 2 * first + j), load<T>(from, 2 * first + j + unzipped::pairs)};
  } else if constexpr (HalfPrecision<T>) {
    const auto both = load<std::uint32_t>(from, first + j);
    const auto low = std::uint16_t(both), high = std::uint16_t(both >> 16);
    return {load<T>(reinterpret_cast<const std::byte*>(&low), 0),
            load<T>(reinterpret_cast<const std::byte*>(&high), 0)};
  } else {
    constexpr std::size_t low = std::endian::native == std::endian::little ? 0 : 1;
    return {load<T>(from, 2 * (first + j) + low), load<T>(from, 2 * (first + j) + 1 - low)};
  }
}

template <class T>
[[gnu::always_inline]] inline void store_two(std::byte* to, std::size_t first, std::size_t j, const two<T>& x) {
  if constexpr (std::same_as<T, unzipped>) {
    store(to, 2 * first + j, x.low);
    store(to, 2 * first + j + unzipped::pairs, x.high);
  } else {
    std::uint16_t low, high;
    std::memcpy(&low, &x.low, sizeof low);
    std::memcpy(&high, &x.high, sizeof high);
    store<std::uint32_t>(to, first + j, std::uint32_t{low} | std::uint32_t{high} << 16);
  }
}

/// The index at which the last element is stored if it has no partner. Unzipped: a position that otherwise only a whole
/// chunk uses.
template <class T>
[[gnu::always_inline]] constexpr std::size_t lone_index(std::size_t i) {
  return std::same_as<T, unzipped> ? i | (2 * unzipped::pairs - 1) : i;
}

/// Eight adjacent elements, as floats.
struct eight {
  using vector [[gnu::vector_size(32)]] = float;
  float x[8];
};

/// Copies through a vector register: processors do not forward several narrow stores to a wider load.
[[gnu::always_inline]] inline void copy_eight(void* to, const void* from) {
  eight::vector x;
  std::memcpy(&x, from, sizeof x);
  std::memcpy(to, &x, sizeof x);
}

/// 16-bit element types that the processor converts eight at a time.
template <class T>
concept InEights = requires(float* wide, std::byte* narrow) {
  T::widen_eight(wide, narrow), T::narrow_eight(narrow, wide);
};

template <class T>
[[gnu::always_inline]] inline eight load_eight(const std::byte* from, std::size_t i) {
  eight e;
  if constexpr (InEights<T>) T::widen_eight(e.x, from + i * sizeof(T));
  else copy_eight(e.x, from + i * sizeof(T));
  return e;
}

template <class T>
[[gnu::always_inline]] inline void store_eight(std::byte* to, std::size_t i, const eight& e) {
  if constexpr (InEights<T>) T::narrow_eight(to + i * sizeof(T), e.x);
  else copy_eight(to + i * sizeof(T), e.x);
}

}  // namespace kolo::inline KOLO_ABI::detail::reduce
