// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A wire format with fewer than 16 bits per element: each group of adjacent elements is sent as small codes and one
// scale.
#pragma once

#include <kolo/reduce/operators.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float8.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI {

namespace detail::reduce {

/// Adjacent elements that share a scale, in memory format.
template <class T, int N>
struct group {
  T x[std::size_t(N)];
};

/// Applies op to two groups, element by element.
template <class Op>
struct of_groups {
  static constexpr bool commutative = is_commutative<Op>;
  static constexpr bool finishes_alone = detail::reduce::finishes_alone<Op>;

  template <class T, int N>
  constexpr group<T, N> operator()(const group<T, N>& a, const group<T, N>& b) const {
    group<T, N> both;
    for (int i = 0; i < N; ++i) both.x[i] = static_cast<T>(op(a.x[i], b.x[i]));
    return both;
  }
  template <class T, int N>
    requires Finishes<Op, T>
  constexpr group<T, N> finish(const group<T, N>& a, int ranks) const {
    group<T, N> all;
    for (int i = 0; i < N; ++i) all.x[i] = op.finish(a.x[i], ranks);
    return all;
  }

  Op op;
};

/// `greatest_code`: the code of a group's element of largest magnitude. `code_of`: the nearest code; |x| <=
/// greatest_code.
template <class Code>
inline constexpr float greatest_code = float(Code::greatest());
template <>
inline constexpr float greatest_code<std::int8_t> = 127;
template <class Code>
constexpr Code code_of(float x) {
  return Code{x};
}
template <>
constexpr std::int8_t code_of<std::int8_t>(float x) {
  return std::int8_t(__builtin_bit_cast(std::uint32_t, x + 0x1.8p23F));  // low bits: x, ties to even
}

}  // namespace detail::reduce

/// `kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average)`: floats are sent in groups of N, as N codes
/// (`std::int8_t`, `kolo::fp8_e4m3`, `kolo::fp8_e5m2`) and a scale in bfloat16: N + 2 bytes instead of 4 N.
///
/// The element of largest magnitude gets the largest code, so the error of an element is at most 1/250 of the largest
/// magnitude with int8, and 1/16 or 1/8 of the element itself with the others, or 2^-18 or 2^-32 of the largest
/// magnitude if that is more. Narrowing is idempotent. A group with a NaN or an infinity becomes NaNs; a group whose
/// largest magnitude is less than about 2^-119 (e4m3: 2^-117, e5m2: 2^-110) becomes zeros.
template <class Code, int N>
  requires std::same_as<Code, std::int8_t> || std::same_as<Code, fp8_e4m3> || std::same_as<Code, fp8_e5m2>
struct scaled {
  static_assert(N >= 2 && N % 2 == 0, "kolo::scaled: a group has an even number of elements");
  static constexpr int group = N;
  using elements = detail::reduce::group<float, N>;

  scaled() = default;
  constexpr explicit scaled(const elements& e) {
    std::int32_t most = 0;  // as integers, the bits of positive floats have the order of the floats; NaNs are larger
    for (int i = 0; i < N; ++i) {
      const float x = e.x[i];  // nvcc's front end cannot bit_cast an array element
      const std::int32_t size = __builtin_bit_cast(std::int32_t, x) & 0x7fffffff;
      most = size > most ? size : most;
    }
    constexpr float greatest = detail::reduce::greatest_code<Code>;
    const float s = float(bfloat16{__builtin_bit_cast(float, most) / greatest});
    const bool is_zero = s < 0x1p-126F;
    scale = bfloat16{is_zero ? 0.0F : s};
    const float per_scale = is_zero ? 0.0F : 1 / s;
    for (int i = 0; i < N; ++i) codes[i] = detail::reduce::code_of<Code>(e.x[i] * per_scale);
  }
  constexpr explicit operator elements() const {
    elements e;
    const float s = scale;
    for (int i = 0; i < N; ++i) e.x[i] = float(codes[i]) * s;
    return e;
  }

  Code codes[std::size_t(N)];
  bfloat16 scale;
};

}  // namespace kolo::inline KOLO_ABI
