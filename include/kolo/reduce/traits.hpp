// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The properties of an operator that its syntax does not show: its guarantees, its element types, and the type it
// computes in.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/element.hpp>
#include <kolo/view/view.hpp>

#include <concepts>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// An operator is a value with a const call `op(a, b)`: two elements in, one out. Static members declare its
/// properties:
///
/// | member | absent means | meaning |
/// |---|---|---|
/// | `bool commutative` | true | op(a, b) and op(b, a) have the same bits |
/// | `bool exact` | false | any grouping gives the same bits (integers; not sums of floats) |
/// | `T identity<T>()` | none | op(identity, x) is x |
/// | `T finish(T x, int p) const` | none | is applied once to the combination of p ranks, also if p is 1 |
/// | `bool divides` | false | `finish` divides by p: not for integers, and skipped on one rank |
///
/// It is assumed to be associative, as for every reduction. T is the type of partial results: float for elements of 16
/// bits, if the operator takes floats.
template <class Op>
inline constexpr bool is_commutative = true;
template <class Op>
  requires requires { Op::commutative; }
inline constexpr bool is_commutative<Op> = bool(Op::commutative);

/// Whether any grouping of these elements gives the same bits: the operator's `exact_on<T>`, or else its `exact`.
template <class Op, class T>
inline constexpr bool is_exact = requires {
  requires bool(Op::exact);
};
template <class Op, class T>
  requires requires { Op::template exact_on<T>; }
inline constexpr bool is_exact<Op, T> = bool(Op::template exact_on<T>);

/// The operator defines an identity: op(identity, x) is x.
template <class Op, class T>
concept HasIdentity = requires {
  { Op::template identity<T>() } -> std::same_as<T>;
};

/// The identity element of Op.
template <class Op, class T>
requires HasIdentity<Op, T> KOLO_HOST_DEVICE constexpr T identity() { return Op::template identity<T>(); }

/// The operator has a final step that takes the number of ranks: `average` divides by it.
template <class Op, class T>
concept Finishes = requires(const Op& op, const T& x) {
  { op.finish(x, 1) } -> std::convertible_to<T>;
};

namespace detail::reduce {

template <class Op>
inline constexpr bool divides = false;
template <class Op>
  requires requires { Op::divides; }
inline constexpr bool divides<Op> = bool(Op::divides);

/// Whether `finish` is applied on one rank, too: `Op::finishes_alone` if declared, else unless it divides (by 1).
template <class Op>
inline constexpr bool finishes_alone = !divides<Op>;
template <class Op>
  requires requires { Op::finishes_alone; }
inline constexpr bool finishes_alone<Op> = bool(Op::finishes_alone);

/// Whether the operator, or the one that it wraps, has a `finish` that is not a template: it must then fit every
/// element.
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

// Detects any call operator of F, even a generic one: a second `operator()` makes the name ambiguous.
struct some_call {
  void operator()();
};
template <class F>
struct two_calls : F, some_call {};

/// The type of an element on the wire.
template <class Op, class T>
using wire_element_t = typename wire_of<Op, T>::type;

/// The type of partial results: float for elements of 16 bits, if the operator can work on floats.
template <class T, class Op>
using accumulator_t = typename accumulator<Op, T>::type;

template <class F>
concept OneCall = requires {
  &F::operator();
};
template <class F>
concept ManyCalls = std::is_class_v<F> && !std::is_final_v<F> && !OneCall<two_calls<F>>;
}  // namespace detail::reduce

/// Can be called, with any arguments: a function pointer, a lambda, a class with one or many `operator()`.
template <class F>
concept Callable =
    std::is_function_v<std::remove_pointer_t<F>> || detail::reduce::OneCall<F> || detail::reduce::ManyCalls<F>;

namespace detail::reduce {
/// An operator on elements whose type is known at run time only: `kolo::reduction`, `kolo::by_kernel`.
template <class Op>
inline constexpr bool is_untyped_operator = false;
}  // namespace detail::reduce

/// Any type accepted as an operator in a call; `OperatorFor` checks whether it fits the elements.
template <class Op>
concept AnyOperator = (Callable<std::remove_cvref_t<Op>> && !ViewLike<Op>) ||
                      detail::reduce::is_untyped_operator<std::remove_cvref_t<Op>>;

/// Takes two T (or two of its accumulator type) and returns one.
template <class Op, class T>
concept OperatorFor = Element<T> &&
    (detail::reduce::CombinesTwo<Op, T> || detail::reduce::CombinesTwo<Op, detail::reduce::accumulator_t<T, Op>>);

}  // namespace kolo::inline KOLO_ABI
