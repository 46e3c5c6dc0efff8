// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What no syntax can show about an operator: what it promises, what it works on, and in which type it works.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/element.hpp>
#include <kolo/view/view.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// An operator is a value with a const call `op(a, b)`: two elements in, one out. It says about itself, in static
/// members:
///
/// | member | absent means | says |
/// |---|---|---|
/// | `bool commutative` | true | op(a, b) and op(b, a) have the same bits |
/// | `bool exact` | false | any grouping gives the same bits (integers; not sums of floats) |
/// | `T identity<T>()` | none | op(identity, x) is x |
/// | `T finish(T x, int p) const` | none | is applied once to what p ranks have combined, also where p is 1 |
/// | `bool divides` | false | `finish` divides by p: makes no sense on integers, and one rank leaves it out |
///
/// It is taken to be associative, as every reduction has to. T is what partial results are kept in: float for elements
/// of 16 bits, if the operator takes floats.
template <class Op>
inline constexpr bool is_commutative = true;
template <class Op>
  requires requires { Op::commutative; }
inline constexpr bool is_commutative<Op> = static_cast<bool>(Op::commutative);

namespace detail::reduce {

template <class Op>
inline constexpr bool says_exact = false;
template <class Op>
  requires requires { Op::exact; }
inline constexpr bool says_exact<Op> = static_cast<bool>(Op::exact);

}  // namespace detail::reduce

/// Whether any grouping of these elements gives the same bits: the operator's `exact_on<T>` says so, or its `exact`.
template <class Op, class T>
inline constexpr bool is_exact = detail::reduce::says_exact<Op>;
template <class Op, class T>
  requires requires { Op::template exact_on<T>; }
inline constexpr bool is_exact<Op, T> = static_cast<bool>(Op::template exact_on<T>);

/// The operator says which element changes nothing: op(identity, x) is x.
template <class Op, class T>
concept HasIdentity = requires {
  { Op::template identity<T>() } -> std::same_as<T>;
};

/// The element that changes nothing when it is combined with another.
template <class Op, class T>
requires HasIdentity<Op, T> KOLO_HOST_DEVICE constexpr T identity() { return Op::template identity<T>(); }

/// The operator does something once at the end, with the number of ranks: `average` divides.
template <class Op, class T>
concept Finishes = requires(const Op& op, const T& x) {
  { op.finish(x, 1) } -> std::convertible_to<T>;
};

namespace detail::reduce {

template <class Op>
inline constexpr bool divides = false;
template <class Op>
  requires requires { Op::divides; }
inline constexpr bool divides<Op> = static_cast<bool>(Op::divides);

/// Does it finish also what one rank has alone? `Op::finishes_alone`, where that is said; a division by 1 is left out.
template <class Op>
inline constexpr bool finishes_alone = !divides<Op>;
template <class Op>
  requires requires { Op::finishes_alone; }
inline constexpr bool finishes_alone<Op> = static_cast<bool>(Op::finishes_alone);

/// Has it, or what it wraps, a member `finish` that is no template, so that its author means it for every element?
template <class Op>
inline constexpr bool must_finish = requires {
  &Op::finish;
}
|| requires { requires Op::must_finish; };

template <class R, class T>
concept BecomesByFloat = accumulate_in_float<T> && std::convertible_to<R, float>;
template <class R, class T>
concept Becomes = std::convertible_to<R, T> || BecomesByFloat<R, T>;

template <class Op, class T>
concept CombinesTwo = requires(const Op& op, const T& a, const T& b) {
  { op(a, b) } -> Becomes<T>;
};

template <class Op, class T>
struct wire_of : std::type_identity<T> {};
template <class Op, class T>
  requires requires { typename Op::wire_element; }
struct wire_of<Op, T> : std::type_identity<typename Op::wire_element> {};

template <class Op, class T>
struct accumulator : std::type_identity<T> {};
template <class Op, class T>
  requires(accumulate_in_float<T>&& CombinesTwo<Op, float>)
struct accumulator<Op, T> : std::type_identity<float> {};

// Whether something can be called at all, however generic the call: a second `operator()` makes the name ambiguous.
struct some_call {
  void operator()();
};
template <class F>
struct two_calls : F, some_call {};

/// What an element is while it travels.
template <class Op, class T>
using wire_element_t = typename wire_of<Op, T>::type;

/// What partial results are kept in: float for elements of 16 bits, if the operator can work on floats.
template <class T, class Op>
using accumulator_t = typename accumulator<Op, T>::type;

template <class F>
concept OneCall = requires {
  &F::operator();
};
template <class F>
concept ManyCalls = std::is_class_v<F> && !std::is_final_v<F> && !OneCall<two_calls<F>>;
}  // namespace detail::reduce

/// Can be called, with whatever arguments: a function pointer, a lambda, a class with one or many `operator()`.
template <class F>
concept Callable =
    std::is_function_v<std::remove_pointer_t<F>> || detail::reduce::OneCall<F> || detail::reduce::ManyCalls<F>;

namespace detail::reduce {
/// An operator on elements whose type is known at run time only: `kolo::reduction`, `kolo::by_kernel`.
template <class Op>
inline constexpr bool is_untyped_operator = false;
}  // namespace detail::reduce

/// What stands in an operator's place in a call; whether it fits the elements is another question, `OperatorFor`.
template <class Op>
concept AnyOperator = (Callable<std::remove_cvref_t<Op>> && !ViewLike<Op>) ||
                      detail::reduce::is_untyped_operator<std::remove_cvref_t<Op>>;

/// Takes two T (or two of what T is accumulated in) and gives one.
template <class Op, class T>
concept OperatorFor = Element<T> &&
    (detail::reduce::CombinesTwo<Op, T> || detail::reduce::CombinesTwo<Op, detail::reduce::accumulator_t<T, Op>>);

}  // namespace kolo::inline KOLO_ABI
