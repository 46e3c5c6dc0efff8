// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise loops over bytes, in the forms that compilers turn into vector instructions.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/element.hpp>

#include <bit>
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

/// Room for a T that has no default constructor; memcpy begins the life of what is in it.
template <class T>
union unborn {
  unborn() {}
  T value;
};

template <class T>
T load(const std::byte* from, std::size_t i) {
  if constexpr (std::is_trivially_default_constructible_v<T>) {
    T x;
    std::memcpy(static_cast<void*>(&x), from + i * sizeof(T), sizeof(T));
    return x;
  } else {
    unborn<T> x;
    std::memcpy(static_cast<void*>(&x.value), from + i * sizeof(T), sizeof(T));
    return x.value;
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

/// Two neighbours. Of 16 bits each, they are read and written as one number of 32: then to widen and to narrow takes shifts and
/// masks, but no shuffling.
template <class T>
struct two {
  T low, high;
};

template <class T>
two<T> load_two(const std::byte* from, std::size_t i) {
  constexpr std::size_t low = std::endian::native == std::endian::little ? 0 : 1;
  if constexpr (HalfPrecision<T>) {
    const auto both = load<std::uint32_t>(from, i);
    const auto first = static_cast<std::uint16_t>(both), second = static_cast<std::uint16_t>(both >> 16);
    return {load<T>(reinterpret_cast<const std::byte*>(&first), 0), load<T>(reinterpret_cast<const std::byte*>(&second), 0)};
  } else {
    return {load<T>(from, 2 * i + low), load<T>(from, 2 * i + 1 - low)};
  }
}

template <HalfPrecision T>
void store_two(std::byte* to, std::size_t i, two<T> x) {
  std::uint16_t low, high;
  std::memcpy(&low, &x.low, sizeof low);
  std::memcpy(&high, &x.high, sizeof high);
  store<std::uint32_t>(to, i, std::uint32_t{low} | std::uint32_t{high} << 16);
}

template <class T>
bool aligned(const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0; }

template <class T>
inline constexpr bool has_members = std::is_class_v<T> && !HalfPrecision<T>;

/// Bytes that hold elements of type T.
template <class T>
struct bytes_of {
  const std::byte* data;
};

/// dst[i] = f(from[i]...). `dst` may be one of the sources, if their elements have the same size.
///
/// Elements are copied in and out as bytes: neither their alignment nor what they were created as matters. For numbers that is as
/// fast as it gets. An element with members becomes one block of bytes, so the members are accessed one by one if it is aligned.
template <class D, class F, class... S>
[[gnu::noinline]] void transform(std::byte* dst, std::size_t count, const F f, const bytes_of<S>... from) {
  constexpr std::size_t chunk = std::bit_floor(128 / sizeof(D)) > 4 ? std::bit_floor(128 / sizeof(D)) : 4;
  const auto each = [=](std::size_t i) { store<D>(dst, i, f(load<S>(from.data, i)...)); };
  if constexpr (HalfPrecision<D>) {
    const auto on_two = [f](two<S>... x) { return two<D>{f(x.low...), f(x.high...)}; };
    for_each_index<chunk / 2>(count / 2, [=](std::size_t i) { store_two(dst, i, on_two(load_two<S>(from.data, i)...)); });
    if (count % 2 != 0) each(count - 1);
  } else if (has_members<D> && aligned<D>(dst) && (aligned<S>(from.data) && ...)) {
    for_each_index<chunk>(count, [=](std::size_t i) {
      ::new (static_cast<void*>(reinterpret_cast<D*>(dst) + i)) D(f(S(reinterpret_cast<const S*>(from.data)[i])...));
    });
  } else {
    for_each_index<chunk>(count, each);
  }
}

}  // namespace kolo::inline v0::detail

#pragma GCC diagnostic pop
