// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides gradients before they are added, so that 16-bit sums do not overflow, and multiplies the result again.
#pragma once

#include <kolo/reduce/operators.hpp>

#include <concepts>

namespace kolo::inline KOLO_ABI {

namespace detail::train {
/// Whether the result can be finished: by a multiplication, and the operator's own finish if it needs one.
template <class Op, class T>
concept FinishesDivided =
    (Finishes<Op, T> || !(reduce::divides<Op> || reduce::must_finish<Op>)) && reduce::Divisible<T>;
template <class Op, class... Bases>
inline constexpr bool is_any_of = (std::derived_from<Op, Bases> || ...);
}  // namespace detail::train

/// The result of `predivide`: `op` on elements that an optimizer has divided by `factor`.
template <class Op>
struct predivided {
  static_assert(
      !requires { typename Op::wire_element; },
      "kolo: the wire goes outside: kolo::wire<W>(kolo::predivide(op, factor))");
  static_assert(!detail::train::is_any_of<Op, product_t, bit_and_t, bit_or_t, bit_xor_t>,
                "kolo: predivide divides each operand and multiplies the result once, which is right for sum, average, "
                "min and max only, not for a product or operators on bits");
  static constexpr bool commutative = is_commutative<Op>;
  static constexpr bool divides = detail::reduce::divides<Op>;
  static constexpr bool must_finish = detail::reduce::must_finish<Op>;
  static constexpr bool finishes_alone = false;  ///< an optimizer on one rank has divided nothing

  template <class T>
  requires std::invocable<const Op&, const T&, const T&> KOLO_HOST_DEVICE constexpr auto operator()(const T& a,
                                                                                                    const T& b) const {
    return op(a, b);
  }

  template <class T>
  requires detail::train::FinishesDivided<Op, T> KOLO_HOST_DEVICE constexpr T finish(const T& x, int ranks) const {
    const T back = static_cast<T>(x * static_cast<typename detail::reduce::divisor<T>::type>(factor));
    if constexpr (Finishes<Op, T>) return op.finish(back, ranks);
    else return back;
  }

  Op op;
  float factor;
};

/// `kolo::wire<kolo::float16>(kolo::predivide(kolo::average, 8))`: gradients are sent and added as eighths. Only an
/// optimizer of this library divides them, and rejects a factor that is not finite or not greater than 0. Powers of two
/// change no bits unless something overflows or underflows. An operator of your own must give f times the result for f
/// times its operands.
template <Callable Op>
constexpr predivided<Op> predivide(Op op, float factor) {
  return {op, factor};
}

namespace detail::train {
/// Returns the factor by which an optimizer divides the operands of this operator.
constexpr float divisor_before(const auto&) { return 1; }
template <class Op>
constexpr float divisor_before(const predivided<Op>& op) {
  return op.factor;
}
template <class Wire, class Op>
constexpr float divisor_before(const wired<Wire, Op>& op) {
  return train::divisor_before(op.op);
}
}  // namespace detail::train

}  // namespace kolo::inline KOLO_ABI
