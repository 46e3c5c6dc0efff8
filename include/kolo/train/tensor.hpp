// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A type-erased parameter of an optimizer: the views of its value and gradient, and operations on the whole gradient.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/execute/call_types.hpp>
#include <kolo/reduce/operators.hpp>
#include <kolo/train/gradients.hpp>
#include <kolo/train/parameter.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// A sentence that describes the error, or nothing.
using refusal = std::optional<std::string>;

template <class Op>
inline constexpr bool has_wire = requires {
  typename Op::wire_element;
};
/// Whether the wire format has scales: it rounds groups of a bucket, not elements of a tensor.
template <class Op>
inline constexpr bool has_wire_of_groups = 0 < reduce::wire_group<reduce::wire_element_t<Op, float>>;

/// Contiguous elements: their first address, the one past the last, and the index of their parameter, whose value or
/// gradient they are.
struct memory_of {
  std::uintptr_t first, end;
  std::size_t parameter;
  bool is_value;
};
/// Sorts them. Returns two that overlap, unless both are values and `values_may`.
[[gnu::cold]] inline std::optional<std::array<memory_of, 2>> first_overlap(std::vector<memory_of>& all,
                                                                           bool values_may) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const memory_of* last[2]{};  // of the gradients before, and of the values: the one that ends last
  for (const memory_of& m : all) {
    for (const memory_of* const before : last)
      if (before && m.first < before->end && !(values_may && m.is_value && before->is_value))
        return std::array{*before, m};
    if (const auto*& its = last[m.is_value ? 1 : 0]; !its || its->end < m.end) its = &m;
  }
  return {};
}
/// Returns which of `parameters` have an entry in `all` (sorted) that overlaps another.
[[gnu::cold]] inline std::vector<char> that_overlap(const std::vector<memory_of>& all, std::size_t parameters) {
  std::vector<char> found(parameters);
  std::uintptr_t end = 0;  // the greatest of those before
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].first < end || (i + 1 < all.size() && all[i + 1].first < all[i].end)) found[all[i].parameter] = 1;
    end = std::max(end, all[i].end);
  }
  return found;
}

class any_tensor {
 public:
  any_tensor() = default;
  any_tensor(const any_tensor&) = delete;
  any_tensor& operator=(const any_tensor&) = delete;
  virtual ~any_tensor() = default;

  virtual bool is_all_zero() const = 0;
  virtual void scale(double factor) const = 0;
  virtual void zero() const = 0;
  /// Rounds the gradient to the operator's wire type, and keeps the residual for the next step.
  virtual void round() = 0;
  virtual void forget_rest() = 0;
  /// Adds the memory of the value, or of the gradient, of this parameter, whose number is `index`: all runs; or,
  /// `as_one`, the interval that contains them, and twice if they do not ascend, so that some may overlap.
  virtual void add_memory(std::vector<memory_of>& all, std::size_t index, bool is_value, bool as_one) const = 0;

  std::string name{};
  bool is_local = false, is_sparse = false;
  std::size_t elements = 0, element_bytes = 1, range = 0;
  std::uint32_t type = 0;  ///< of the elements: equal on all ranks
};

template <View Value, View Gradient, class Op>
class tensor final : public any_tensor {
  using T = typename Gradient::element_type;

 public:
  template <class P>
  tensor(P& p, std::size_t index, std::size_t of_range)
      : value{kolo::as_view(p.value)}, gradient{kolo::as_view(p.gradient)} {
    name = train::name_of(p, index), is_local = train::is_local(p), is_sparse = train::rows_of(p) != nullptr;
    elements = gradient.size(), element_bytes = sizeof(T), range = of_range, type = execute::type_hash<T>();
    if (value.size() != gradient.size())
      throw error{errc::invalid_argument, name + " has " + std::to_string(value.size()) +
                                              " values, but a gradient of " + std::to_string(gradient.size())};
  }

  bool is_all_zero() const override { return train::is_all_zero(gradient); }
  void scale(double factor) const override { train::scale(gradient, factor); }
  void zero() const override {
    view::for_runs(gradient, [](auto run) { std::fill(run.begin(), run.end(), T{}); });
  }
  void round() override {
    if constexpr (has_wire<Op> && !has_wire_of_groups<Op>)
      round_with_feedback<typename Op::wire_element>(gradient, rest_);
  }

  void add_memory(std::vector<memory_of>& all, std::size_t index, bool is_value, bool as_one) const override {
    const memory_of none{UINTPTR_MAX, 0, index, is_value};
    is_value ? add_memory_of(value, all, none, as_one) : add_memory_of(gradient, all, none, as_one);
  }

  void forget_rest() override { rest_.clear(); }

  refusal refuses_shape(auto& p) const {
    if (train::is_local(p) != is_local || (train::rows_of(p) != nullptr) != is_sparse)
      return name + " changed its .local or .rows; make a new optimizer";
    const Value now = kolo::as_view(p.value);
    const Gradient gradient_now = kolo::as_view(p.gradient);
    if (is_same_memory(now, value) && is_same_memory(gradient_now, gradient)) return {};
    if (now.size() == elements && gradient_now.size() == elements)
      return name + " lies elsewhere than when the optimizer was made";
    return name + " changed its shape: from " + std::to_string(elements) + " values to " + std::to_string(now.size()) +
           ", with a gradient of " + std::to_string(gradient_now.size()) + "; make a new optimizer";
  }

  Value value;
  Gradient gradient;

 private:
  template <View V>
  static bool is_same_memory(const V& a, const V& b) {
    if (a.size() != b.size()) return false;
    if (a.size() == 0) return true;
    if constexpr (ContiguousView<V>) return a.data() == b.data();
    else return a.run(0).data() == b.run(0).data();
  }

  static void add_memory_of(const View auto& view, std::vector<memory_of>& all, memory_of whole, bool as_one) {
    bool ascend = true;
    view::for_runs(view, [&](auto run) {
      const auto first = reinterpret_cast<std::uintptr_t>(run.data()), end = first + run.size_bytes();
      if (!as_one) return all.push_back({first, end, whole.parameter, whole.is_value});
      ascend = ascend && whole.end <= first;
      whole.first = std::min(whole.first, first), whole.end = std::max(whole.end, end);
    });
    if (as_one && view.size() > 0) all.insert(all.end(), ascend ? 1 : 2, whole);
  }

  std::vector<T> rest_{};
};

template <class P, class Op>
using tensor_of =
    tensor<view_of<decltype((std::declval<P&>().value))>, view_of<decltype((std::declval<P&>().gradient))>, Op>;

/// Those of all parameters.
template <class Op>
std::vector<std::unique_ptr<any_tensor>> tensors_of(auto& parameters) {
  std::vector<std::unique_ptr<any_tensor>> all;
  std::size_t of_range = 0;
  train::each_range(parameters, [&](auto& some) {
    for (auto&& p : some)
      all.push_back(std::unique_ptr<any_tensor>{
          new tensor_of<std::remove_reference_t<decltype(p)>, Op>{p, all.size(), of_range}});
    ++of_range;
  });
  return all;
}

}  // namespace kolo::inline KOLO_ABI::detail::train
