// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Eigen's matrices as parameters: a value and its gradient, of the same shape. Opt-in; it includes nothing of Eigen.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/train/parameter.hpp>

#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// A matrix that is stored without gaps, as Eigen's Matrix, Array, Map and whole-column Block are.
template <class M>
concept EigenMatrix = WritableViewLike<M> && requires(std::remove_reference_t<M>& m) {
  m.rows(), m.cols(), m.outerStride(), m.innerStride(), m.innerSize();
  std::remove_reference_t<M>::IsRowMajor;
};

namespace detail::adapt {
/// Refers to the elements of another object, as a Map or a Block does. A Matrix or an Array owns its elements, and is
/// its own PlainObject.
template <class M>
concept RefersToElements = !std::is_same_v<typename M::PlainObject, M>;
template <class M>
inline constexpr bool elements_stay = std::is_lvalue_reference_v<M> || RefersToElements<std::remove_cvref_t<M>>;
}  // namespace detail::adapt

/// `std::vector parameters{kolo::eigen_parameter{weight, weight_gradient, "weight"}, kolo::eigen_parameter{bias,
/// bias_gradient, "bias"}};`
///
/// Models `kolo::Parameter` for matrices and vectors of any shape, fixed or dynamic. It refers to both, which must not
/// be resized or moved. Errors: `invalid_argument` if the shapes differ (a transposed gradient), or there are gaps
/// between columns (rows, in row-major order).
template <Element T>
struct eigen_parameter {
  std::string name;
  std::span<T> value, gradient;

  template <EigenMatrix Value, EigenMatrix Gradient>
  eigen_parameter(Value&& of_value, Gradient&& of_gradient, std::string called = "a parameter")
      : name{std::move(called)}, value{elements(of_value)}, gradient{elements(of_gradient)} {
    static_assert(
        detail::adapt::elements_stay<Value> && detail::adapt::elements_stay<Gradient>,
        "kolo: an eigen_parameter refers to its matrices and does not copy them: pass named matrices, not temporaries");
    static_assert(is_vector<Value> || bool(std::remove_reference_t<Value>::IsRowMajor) ==
                                          bool(std::remove_reference_t<Gradient>::IsRowMajor),
                  "kolo: a matrix and its gradient must have the same storage order, both by columns or both by rows");
    if (of_value.rows() != of_gradient.rows() || of_value.cols() != of_gradient.cols())
      refuse("is " + shape(of_value) + ", but its gradient " + shape(of_gradient));
  }

 private:
  template <class M>
  static constexpr bool is_vector = std::remove_reference_t<M>::IsVectorAtCompileTime;

  template <class M>
  std::span<T> elements(M& m) const {
    const bool is_dense =
        m.innerStride() == 1 && (is_vector<M> || m.size() == m.innerSize() || m.outerStride() == m.innerSize());
    if (!is_dense && m.size() > 0) refuse("has gaps between its elements: copy it into a matrix of its own");
    return {m.data(), std::size_t(m.size())};
  }
  static std::string shape(const auto& m) { return std::to_string(m.rows()) + " x " + std::to_string(m.cols()); }
  [[noreturn]] void refuse(const std::string& what) const { throw error{errc::invalid_argument, name + " " + what}; }
};

template <class Value, class Gradient, class... Name>
eigen_parameter(Value&&, Gradient&&, Name&&...) -> eigen_parameter<view_element_t<Value>>;

}  // namespace kolo::inline KOLO_ABI
