// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's operators, an operator with a narrower wire type, and the check that an operator fits its elements.
#pragma once

#include <kolo/config.hpp>
#include <kolo/reduce/arithmetic.hpp>
#include <kolo/reduce/traits.hpp>

#include <concepts>
#include <limits>

namespace kolo::inline KOLO_ABI {

namespace detail::reduce {
struct exact_on_integers {
  template <class T>
  static constexpr bool exact_on = std::integral<T>;
};
struct exact_on_numbers {
  template <class T>
  static constexpr bool exact_on = Number<T>;
};
}  // namespace detail::reduce

/// a + b. Integers wrap around, whatever their sign and size; of bool, it is "or".
struct sum_t : detail::reduce::exact_on_integers {
  template <detail::reduce::Number T>  // minus zero: adding zero would turn it into zero
  KOLO_HOST_DEVICE static constexpr T identity() {
    return std::integral<T> ? static_cast<T>(0) : static_cast<T>(-0.0F);
  }

  template <class T>
    requires requires(const T& a) {
      { a + a } -> detail::reduce::Becomes<T>;
    }
  KOLO_HOST_DEVICE constexpr auto operator()(const T& a, const T& b) const {
    if constexpr (std::integral<T>)
      return static_cast<T>(detail::reduce::wrapping<T>(a) + detail::reduce::wrapping<T>(b));
    else if constexpr (std::convertible_to<decltype(a + b), T>) return static_cast<T>(a + b);
    else return a + b;  // elements of 16 bits: a float
  }
};

/// a * b. Integers wrap around, whatever their sign and size; of bool, it is "and".
struct product_t : detail::reduce::exact_on_integers {
  template <detail::reduce::Number T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return static_cast<T>(1);
  }

  template <class T>
    requires requires(const T& a) {
      { a* a } -> detail::reduce::Becomes<T>;
    }
  KOLO_HOST_DEVICE constexpr auto operator()(const T& a, const T& b) const {
    if constexpr (std::integral<T>)
      return static_cast<T>(detail::reduce::wrapping<T>(a) * detail::reduce::wrapping<T>(b));
    else if constexpr (std::convertible_to<decltype(a * b), T>) return static_cast<T>(a * b);
    else return a * b;  // elements of 16 bits: a float
  }
};

/// The smaller one. For floating-point numbers: -0 is less than +0; if an operand is a NaN, the result is the NaN whose
/// bits are all set (for long double: the quiet one). So the order of operands never affects the bits.
struct min_t : detail::reduce::exact_on_numbers {
  template <detail::reduce::Number T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return detail::reduce::greatest<T>();
  }

  template <class T>
    requires requires(const T& a) {
      { a < a } -> std::convertible_to<bool>;
    }
  KOLO_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const { return detail::reduce::smaller_of(a, b); }
};

/// The larger one, with the rules of `min`.
struct max_t : detail::reduce::exact_on_numbers {
  template <detail::reduce::Number T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return detail::reduce::least<T>();
  }

  template <class T>
    requires requires(const T& a) {
      { a < a } -> std::convertible_to<bool>;
    }
  KOLO_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const { return detail::reduce::larger_of(a, b); }
};

/// The sum, divided once at the end by the number of ranks. Not for integers.
struct average_t {
  static constexpr bool divides = true;
  template <detail::reduce::Number T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return sum_t::identity<T>();
  }

  template <class T>
  requires std::invocable<const sum_t&, const T&, const T&> KOLO_HOST_DEVICE constexpr auto operator()(
      const T& a, const T& b) const {
    return sum_t{}(a, b);
  }

  template <detail::reduce::Divisible T>
  KOLO_HOST_DEVICE constexpr T finish(const T& x, int ranks) const {
    return static_cast<T>(x / static_cast<typename detail::reduce::divisor<T>::type>(ranks));
  }
};

/// a & b, a | b, a ^ b: for integers, and for types with these operators.
struct bit_and_t : detail::reduce::exact_on_integers {
  template <std::integral T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return std::same_as<T, bool> ? T(1) : static_cast<T>(~detail::reduce::wrapping<T>{0});
  }

  template <class T>
    requires requires(const T& a) {
      { a& a } -> std::convertible_to<T>;
    }
  KOLO_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const { return static_cast<T>(a & b); }
};

/// a | b. Exact on integers; the identity is 0. Takes the same types as `bit_and_t`.
struct bit_or_t : detail::reduce::exact_on_integers {
  template <std::integral T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return T{0};
  }

  template <class T>
    requires requires(const T& a) {
      { a | a } -> std::convertible_to<T>;
    }
  KOLO_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const { return static_cast<T>(a | b); }
};

/// a ^ b. Exact on integers; the identity is 0. Takes the same types as `bit_and_t`.
struct bit_xor_t : detail::reduce::exact_on_integers {
  template <std::integral T>
  KOLO_HOST_DEVICE static constexpr T identity() {
    return T{0};
  }

  template <class T>
    requires requires(const T& a) {
      { a ^ a } -> std::convertible_to<T>;
    }
  KOLO_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const { return static_cast<T>(a ^ b); }
};

inline constexpr sum_t sum{};          ///< a + b; see sum_t
inline constexpr product_t product{};  ///< a * b; see product_t
inline constexpr min_t min{};          ///< the smaller one; see min_t
inline constexpr max_t max{};          ///< the larger one; see max_t
inline constexpr average_t average{};  ///< the sum, divided by the number of ranks; see average_t
inline constexpr bit_and_t bit_and{};  ///< a & b; see bit_and_t
inline constexpr bit_or_t bit_or{};    ///< a | b; see bit_or_t
inline constexpr bit_xor_t bit_xor{};  ///< a ^ b; see bit_xor_t

/// An operator with wire type `Wire`. It combines as `Op` does; elements are rounded to `Wire` before they are sent.
template <class Wire, class Op>
struct wired {
  using wire_element = Wire;
  static constexpr bool commutative = is_commutative<Op>;
  static constexpr bool divides = detail::reduce::divides<Op>;
  static constexpr bool finishes_alone = detail::reduce::finishes_alone<Op>;
  static constexpr bool must_finish = detail::reduce::must_finish<Op>;

  template <class T>
  requires std::invocable<const Op&, const T&, const T&> KOLO_HOST_DEVICE constexpr auto operator()(const T& a,
                                                                                                    const T& b) const {
    return op(a, b);
  }

  template <class T>
  requires Finishes<Op, T> KOLO_HOST_DEVICE constexpr T finish(const T& x, int ranks) const {
    return op.finish(x, ranks);
  }

  Op op;
};

/// `wire<bfloat16>(average)`: floats in memory, bfloat16 on the wire, which halves the bytes.
template <Element Wire, Callable Op>
constexpr wired<Wire, Op> wire(Op op) {
  return {op};
}

namespace detail::reduce {

template <class T>
concept ComplexOfIntegers = requires(const T& x) {
  { x.real() } -> std::integral;
};
template <class Op, class T>
inline constexpr bool averages_integers = divides<Op> && (std::numeric_limits<T>::is_integer || ComplexOfIntegers<T>);
template <class Op, class T>
inline constexpr bool finishes_if_it_must = !(divides<Op> || must_finish<Op>) || Finishes<Op, accumulator_t<T, Op>>;

/// The number of elements in a group of the wire format (reduce/scaled.hpp); 0: it has no groups.
template <class Wire>
inline constexpr int wire_group = 0;
template <class Wire>
  requires requires { Wire::group; }
inline constexpr int wire_group<Wire> = Wire::group;

// Integers are sent as integers only, since a conversion would wrap them around or round them; others never as
// integers.
template <class Op, class T, class Wire = wire_element_t<Op, T>>
inline constexpr bool wire_fits = std::same_as<Wire, T> || (0 < wire_group<Wire> && std::same_as<T, float>) ||
                                  (Element<Wire> && sizeof(Wire) <= sizeof(T) &&
                                   std::integral<Wire> == std::integral<T> && view::ConvertsTo<T, Wire> &&
                                   view::ConvertsTo<Wire, T>);

}  // namespace detail::reduce

/// Whether a reduction with this operator takes elements of this type. `operator_check` explains why not.
template <class Op, class T>
inline constexpr bool operator_accepts = OperatorFor<Op, T> && !detail::reduce::averages_integers<Op, T> &&
                                         detail::reduce::finishes_if_it_must<Op, T> && detail::reduce::wire_fits<Op, T>;

/// Compiles if `operator_accepts<Op, T>`; otherwise the error explains why not.
template <class Op, class T>
constexpr void operator_check() {
  static_assert(Element<T>, "kolo: an element must be trivially copyable, because only its bytes are sent");
  if constexpr (!Element<T>) return;
  else if constexpr (detail::reduce::averages_integers<Op, T>)
    static_assert(!detail::reduce::averages_integers<Op, T>,
                  "kolo::average divides and would round integers: use kolo::sum");
  else if constexpr (!OperatorFor<Op, T>)
    static_assert(OperatorFor<Op, T>,
                  "kolo: the operator does not fit the elements: op(a, b), called on a const operator with two "
                  "elements, must return a type that converts to an element (bit_and, bit_or and bit_xor take "
                  "integers; elements of a type of your own need its +, * or <, or an operator of your own)");
  else if constexpr (!detail::reduce::finishes_if_it_must<Op, T>)
    static_assert(detail::reduce::finishes_if_it_must<Op, T>,
                  "kolo: finish(x, p), called on a const operator with the type of partial results (float for elements "
                  "of 16 bits), must return a type that converts to it; kolo::average needs elements that can be "
                  "divided by a number: x / 2");
  else
    static_assert(detail::reduce::wire_fits<Op, T>,
                  "kolo::wire: the wire type must be convertible to and from the element, and not wider; "
                  "both are integers or neither is (kolo::scaled takes floats)");
}

}  // namespace kolo::inline KOLO_ABI
