// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank's gradients in an optimizer of this library: their views, the state of the backward passes, and the checks
// of misuse.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/buckets.hpp>
#include <kolo/train/predivide.hpp>
#include <kolo/train/tensor.hpp>
#include <kolo/view/bucket.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {
/// Defined in collective/scaled.hpp.
template <class Wire, View V>
void round_groups_with_feedback(const V& view, std::vector<float>& residuals);
}  // namespace detail::collective

namespace detail::train {

/// Collective: returns whether all ranks have the same number.
[[gnu::cold]] bool are_alike(auto& comm, std::uint64_t number) {
  std::uint64_t both[] = {number, ~number};
  const std::span all{both};
  start_allreduce(comm, all, max).wait();
  return both[0] == ~both[1];
}

/// Runs a check that may fail on this rank alone, before all ranks compare. A rank that fails takes part in the
/// comparison, by which the others find that ranks differ.
[[gnu::cold]] auto check_before_comparison(auto& comm, auto check) {
  return core::with_rollback(check, [&] { are_alike(comm, 0); });
}

/// Functions named `refuses_...` return a sentence that describes the error, or nothing.
template <class Range, class Op>
class local_gradients {
  using range = std::remove_reference_t<Range>;

 public:
  /// `are_leaves`: passes do not accumulate in place, and ranks may have different numbers of them.
  local_gradients(range& parameters, Op op, int ranks, int passes, bool are_leaves, bool feedback)
      : op_{std::move(op)},
        passes_{passes},
        are_leaves_{are_leaves},
        before_{1.0 / (reduce::divides<Op> && !are_leaves ? passes : 1) /
                (ranks > 1 || are_leaves ? divisor_before(op_) : 1)},
        has_residual_{feedback && ranks > 1} {
    if (passes < 1)
      throw error{errc::invalid_argument,
                  "an optimizer takes at least one backward pass, not " + std::to_string(passes)};
    if (const float by = divisor_before(op_); !(by > 0) || !std::isfinite(by))
      throw error{errc::invalid_argument,
                  "predivide(op, factor) takes a finite factor greater than 0, not " + std::to_string(by)};
    if (feedback && !has_wire<Op>)
      throw error{errc::invalid_argument,
                  "error feedback keeps what wire<...>(op) rounds away, and this operator has no wire type"};
    std::size_t of_range = 0;
    each_range(parameters, [&](auto& some) {
      for (auto&& p : some)
        tensors_.push_back(std::make_unique<tensor_of<std::remove_reference_t<decltype(p)>, Op>>(p, size(), of_range));
      ++of_range;
    });
    marks_.resize(size()), had_numbers_.resize(size());
  }

  const Op& op() const { return op_; }
  std::size_t size() const { return tensors_.size(); }
  const any_tensor& tensor(std::size_t i) const { return *tensors_[i]; }

  /// Errors: `invalid_argument` if parameters share elements, which would be exchanged and updated more than once.
  void refuse_shared_gradients() const { refuse_shared(&any_tensor::add_gradient); }
  void refuse_shared_values() const { refuse_shared(&any_tensor::add_value); }

  /// Collective: plans the buckets. Throws on all ranks if they plan different buckets, pass different numbers, have
  /// different gradients with rows, or multiply by different factors.
  template <kind K, class Comm>
  bucket_plan plan(Comm& comm, bucket_rules rules, std::uint64_t callers_number) const {
    std::vector<planned_tensor> planned;
    std::size_t all = 0;
    for (const auto& t : tensors_) {
      const bool is_in = !t->is_local && !t->is_sparse;
      planned.push_back({is_in ? t->elements : not_planned, t->element_bytes, t->range});
      if (is_in) all += t->elements * t->element_bytes;
    }
    if (rules.cap_bytes == 0) rules.cap_bytes = chosen_cap<K>(*comm.engine(), all);
    bucket_plan made = check_before_comparison(comm, [&] {
      refuse_shared_gradients();
      if (K == kind::reduce_scatter) refuse_shared_values();
      return plan_buckets(planned, rules);
    });
    for (const auto& t : tensors_) made.names.push_back(t->name);
    digest mine = digest_of(made);
    mine.add(callers_number, std::bit_cast<std::uint64_t>(before_), are_leaves_ ? 0 : passes_);
    for (const auto& t : tensors_)
      if (!t->is_local) mine.add(t->elements, t->range, t->is_sparse);
    if (!are_alike(comm, mine.value))
      throw error{
          errc::mismatch,
          "ranks plan different buckets: number, order or sizes of their parameters, or the options, differ; here: " +
              made.message()};
    return made;
  }

  /// Calls f(index, values, gradients) with a bucket of the values and a bucket of the gradients of the tensors
  /// `which`, all of range `k`. `index` is k as std::integral_constant.
  void with_tensors(std::size_t k, const std::vector<std::size_t>& which, auto f) const {
    using ranges = typename ranges_of<range>::type;
    const auto one = [&](auto index) {
      using typed = tensor_of<std::remove_reference_t<item_of<std::tuple_element_t<index, ranges>>>, Op>;
      std::vector<decltype(typed::value)> values;
      std::vector<decltype(typed::gradient)> gradients;
      for (const std::size_t i : which) {
        const auto& t = static_cast<const typed&>(*tensors_[i]);
        values.push_back(t.value), gradients.push_back(t.gradient);
      }
      f(index, bucket{values}, bucket{gradients});
    };
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      ((k == Index ? one(std::integral_constant<std::size_t, Index>{}) : void()), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<ranges>>{});
  }

  refusal refuses_ready(range& parameters, std::size_t i, const auto& queue) const {
    if (i >= size()) return "there is no parameter " + std::to_string(i);
    if (is_exchanged_) return tensor(i).name + " was ready after the gradients had been exchanged, and before the step";
    if (pass_ > 0 && !uses_ready_)
      return tensor(i).name + " was ready, and none was in an earlier backward pass of this step: " + in_each_pass;
    if (marks_[i] || queue.is_marked(i))
      return tensor(i).name +
             " was ready twice: step() was not called after the backward pass, or options.passes is too small";
    refusal wrong;
    with_parameter(parameters, i, [&](auto&& p) { wrong = refuses_shape(p, i); });
    return wrong;
  }
  void mark_ready(std::size_t i) {
    uses_ready_ = true;
    had_numbers_[i] = !tensor(i).is_all_zero();
  }
  void mark(std::size_t i) { marks_[i] = 1; }

  refusal refuses_exchange(range& parameters, const auto& queue) const {
    if (is_exchanged_) return "the gradients have been exchanged already, and no step was made with them";
    refusal wrong;
    std::size_t count = 0;
    each_parameter(parameters, [&](std::size_t i, auto& p) {
      ++count;
      if (i >= size() || wrong) return;
      wrong = refuses_shape(p, i);
      if (!wrong && queue.is_begun() && !queue.is_marked(i) && !tensor(i).is_local) wrong = not_ready(i);
      if (!wrong && (tensor(i).is_local || tensor(i).is_sparse)) wrong = refuses_zeroed(i);  // not in a bucket
    });
    if (wrong) return wrong;
    if (count != size()) return "there are more or fewer parameters than at the beginning";
    if (uses_ready_ && !queue.is_begun()) return "step without a backward pass: no gradient is ready";
    return {};
  }

  /// Called just before gradient i is exchanged, or its leaf is added to the sums.
  refusal refuses_zeroed(std::size_t i) const {
    if (!had_numbers_[i] || !tensor(i).is_all_zero()) return {};
    return tensor(i).name + ": the gradient was zeroed between the backward pass and the step";
  }
  void prepare(std::size_t i) {
    any_tensor& t = *tensors_[i];
    if (before_ != 1) t.scale(before_);
    if (has_residual_) t.round();
  }
  /// Rounds the prepared gradients of bucket b with error feedback, for a wire format with scales.
  template <View V>
  void prepare_groups([[maybe_unused]] std::size_t b, [[maybe_unused]] const V& gradients) {
    if constexpr (has_wire_of_groups<Op>) {
      if (!has_residual_) return;
      if (rests_.size() <= b) rests_.resize(b + 1);
      collective::round_groups_with_feedback<typename Op::wire_element>(gradients, rests_[b]);
    }
  }
  /// Scales gradients that are not in buckets: exchanged as rows, or not at all.
  void prepare_others() {
    const double own = 1.0 / (reduce::divides<Op> ? passes_ : 1);
    for (const auto& t : tensors_)
      if (const double factor = t->is_local ? own : before_; factor != 1 && (t->is_local || t->is_sparse))
        t->scale(factor);
  }

  /// Called before the end of a pass that is not the last.
  refusal refuses_pass() const {
    if (is_last_pass() || !uses_ready_) return {};
    for (std::size_t i = 0; i < size(); ++i)
      if (!marks_[i] && !tensor(i).is_local)
        return has_marks() ? not_ready(i) : std::string{"no gradient is ready at the end of a pass: "} + in_each_pass;
    return {};
  }
  bool has_passed() const { return pass_ > 0; }  ///< a pass of this step has ended
  bool is_last_pass() const { return pass_ + 1 >= passes_; }
  bool is_exchanged() const { return is_exchanged_; }
  bool has_begun() const {  ///< a pass before the last has begun
    return pass_ > 0 || has_marks();
  }
  /// Called at the end of a backward pass; returns whether more follow.
  bool end_pass() {
    if (is_last_pass()) return false;
    ++pass_;
    marks_.assign(marks_.size(), 0);
    return true;
  }
  void mark_exchanged() {
    is_exchanged_ = true;
    has_numbers_ = !is_all_zero();
  }
  refusal refuses_update() const {
    if (has_numbers_ && is_all_zero()) return "the gradients were zeroed between their exchange and the step";
    return {};
  }
  void forget_rests() {
    for (const auto& t : tensors_) t->forget_rest();
    for (auto& rest : rests_) rest.clear();
  }
  void end_step() {
    is_exchanged_ = has_numbers_ = false;
    pass_ = 0;
    marks_.assign(marks_.size(), 0);
    had_numbers_.assign(had_numbers_.size(), 0);
  }

  void zero(range& parameters) {
    for (const auto& t : tensors_) t->zero();
    each_parameter(parameters, [](std::size_t, auto& p) {
      if (row_list* const rows = rows_of(p)) rows->touched.clear();
    });
  }

 private:
  static constexpr const char* in_each_pass = "call ready in each pass of a step, or in none";

  bool has_marks() const {
    return std::any_of(marks_.begin(), marks_.end(), [](char m) { return m != 0; });
  }
  /// Compares intervals first, and runs only of those that overlap: a run may be one element.
  void refuse_shared(void (any_tensor::*add)(std::vector<memory_of>&, std::size_t, bool) const) const {
    std::vector<memory_of> all, runs;
    for (std::size_t i = 0; i < size(); ++i)
      if (!tensor(i).is_local) (tensor(i).*add)(all, i, true);
    if (first_overlap(all) == all.end()) return;
    const std::vector<char> overlap = that_overlap(all, size());
    for (std::size_t i = 0; i < size(); ++i)
      if (overlap[i]) (tensor(i).*add)(runs, i, false);
    if (const auto at = first_overlap(runs); at != runs.end())
      throw error{errc::invalid_argument,
                  tensor(at[0].parameter).name + " and " + tensor(at[1].parameter).name +
                      " share elements: a tensor that several layers use is one parameter, and is named once"};
  }
  std::string not_ready(std::size_t i) const {
    return "step before the end of the backward pass: " + tensor(i).name + " is not ready";
  }
  template <class P>
  refusal refuses_shape(P& p, std::size_t i) const {
    const auto* const same = dynamic_cast<const tensor_of<P, Op>*>(tensors_[i].get());
    return same ? same->refuses_shape(p) : refusal{"there are more or fewer parameters than at the beginning"};
  }
  bool is_all_zero() const {
    return std::all_of(tensors_.begin(), tensors_.end(), [](const auto& t) { return t->is_all_zero(); });
  }

  Op op_;
  std::vector<std::unique_ptr<any_tensor>> tensors_{};
  int passes_, pass_ = 0;
  bool are_leaves_;
  double before_;                            ///< the factor of a gradient before its exchange
  bool has_residual_;                        ///< error feedback
  std::vector<std::vector<float>> rests_{};  ///< residuals of each bucket, for a wire format with scales
  std::vector<char> marks_{};                ///< ready, in a pass that is not the last
  std::vector<char> had_numbers_{};          ///< not all zero when it was ready
  bool is_exchanged_ = false, has_numbers_ = false, uses_ready_ = false;
};

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI
