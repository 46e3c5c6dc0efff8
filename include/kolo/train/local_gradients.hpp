// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank's gradients in an optimizer of this library: their views, the state of the backward passes, and the checks
// of misuse.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/train/buckets.hpp>
#include <kolo/train/predivide.hpp>
#include <kolo/train/tensor.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// Collective: returns whether all ranks have the same number.
template <class T>
[[gnu::cold]] bool are_alike(const communicator<T>& comm, std::uint64_t number);

/// Runs a check that may fail on this rank alone, before all ranks compare. A rank that fails takes part in the
/// comparison, by which the others find that ranks differ.
[[gnu::cold]] auto check_before_comparison(auto& comm, auto check) {
  return core::with_rollback(check, [&] { train::are_alike(comm, 0); });
}

/// The properties of an optimizer's operator.
struct operator_traits {
  bool divides, has_wire, has_wire_of_groups;
  float divisor_before;
};
template <class Op>
operator_traits traits_of_operator(const Op& op) {
  return {reduce::divides<Op>, has_wire<Op>, has_wire_of_groups<Op>, train::divisor_before(op)};
}

/// Functions named `refuses_...` return a sentence that describes the error, or nothing.
class local_gradients {
 public:
  /// `are_leaves`: passes do not accumulate in place, and ranks may have different numbers of them.
  local_gradients(std::vector<std::unique_ptr<any_tensor>> tensors, const operator_traits& op, int ranks,
                  int passes = 1, bool are_leaves = false, bool feedback = false)
      : op_{op},
        tensors_{std::move(tensors)},
        passes_{passes},
        are_leaves_{are_leaves},
        before_{1.0 / (op.divides && !are_leaves ? passes : 1) / (ranks > 1 || are_leaves ? op.divisor_before : 1)},
        has_residual_{feedback && ranks > 1},
        marks_(size()),
        had_numbers_(size()) {
    if (passes < 1)
      throw error{errc::invalid_argument,
                  "an optimizer takes at least one backward pass, not " + std::to_string(passes)};
    if (const float by = op.divisor_before; !(by > 0) || !std::isfinite(by))
      throw error{errc::invalid_argument,
                  "predivide(op, factor) takes a finite factor greater than 0, not " + std::to_string(by)};
    if (feedback && !op.has_wire)
      throw error{errc::invalid_argument,
                  "error feedback keeps what wire<...>(op) rounds away, and this operator has no wire type"};
  }

  const operator_traits& op() const { return op_; }
  std::size_t size() const { return tensors_.size(); }
  const any_tensor& tensor(std::size_t i) const { return *tensors_[i]; }

  /// Errors: `invalid_argument` if parameters share elements, which would be exchanged and updated more than once; of
  /// gradients also if one shares elements with a value.
  void refuse_shared_gradients() const { refuse_shared(true); }
  void refuse_shared_values() const { refuse_shared(false); }

  /// The numbers of parameters, as text: not all of them show in the buckets.
  std::string message() const {
    std::size_t empty = 0, sparse = 0, local = 0;
    for (const auto& t : tensors_) empty += t->elements == 0, sparse += t->is_sparse, local += t->is_local;
    return core::text_of({size(), size() == 1 ? " parameter (" : " parameters (", empty, " empty, ", sparse,
                          " with rows, ", local, " local)"});
  }

  /// What ranks must have alike beside their buckets.
  void add_to(core::digest& d) const {
    d.add(std::bit_cast<std::uint64_t>(before_), are_leaves_ ? 0 : passes_);
    for (const auto& t : tensors_)
      if (!t->is_local) d.add(t->elements, t->type, t->range, t->is_sparse);
  }

  refusal refuses_ready(std::size_t i) const {
    if (is_exchanged_) return tensor(i).name + " was ready after the gradients had been exchanged, and before the step";
    if (pass_ > 0 && !uses_ready_)
      return tensor(i).name + " was ready, and none was in an earlier backward pass of this step: " + in_each_pass;
    if (marks_[i])
      return tensor(i).name +
             " was ready twice: step() was not called after the backward pass, or options.passes is too small";
    return {};
  }
  void mark_ready(std::size_t i) {
    uses_ready_ = true;
    had_numbers_[i] = !tensor(i).is_all_zero();
    marks_[i] = 1, ++mark_count_;
  }

  refusal refuses_exchange() const {
    for (std::size_t i = 0; i < size(); ++i) {
      const any_tensor& t = tensor(i);
      if (has_marks() && !marks_[i] && !t.is_local) return not_ready(i);
      if (t.is_local || t.is_sparse)  // not in a bucket
        if (const refusal zeroed = refuses_zeroed(i)) return zeroed;
    }
    if (uses_ready_ && !has_marks()) return "step without a backward pass: no gradient is ready";
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
  /// For a wire format with scales and error feedback: the residuals of bucket b. Else null.
  std::vector<float>* rest_of(std::size_t b) {
    if (!op_.has_wire_of_groups || !has_residual_) return nullptr;
    if (rests_.size() <= b) rests_.resize(b + 1);
    return &rests_[b];
  }
  /// Scales gradients that are not in buckets: exchanged as rows, or not at all.
  void prepare_others() {
    const double own = 1.0 / (op_.divides ? passes_ : 1);
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
  bool has_marks() const { return mark_count_ > 0; }  ///< some gradient of this pass is ready, and not exchanged yet
  bool has_begun() const { return pass_ > 0 || has_marks(); }  ///< a step has begun
  /// Called at the end of a backward pass; returns whether more follow.
  bool end_pass() {
    if (is_last_pass()) return false;
    ++pass_;
    forget_marks();
    return true;
  }
  void forget_marks() { marks_.assign(marks_.size(), 0), mark_count_ = 0; }
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
    forget_marks();
    had_numbers_.assign(had_numbers_.size(), 0);
  }

  void zero() {
    for (const auto& t : tensors_) t->zero();
  }

 private:
  static constexpr const char* in_each_pass = "call ready in each pass of a step, or in none";

  /// Compares intervals first, and runs only of those that overlap: a run may be one element.
  void refuse_shared(bool of_gradients) const {
    std::vector<memory_of> all, runs;
    const auto add = [&](std::vector<memory_of>& to, std::size_t i, bool as_one) {
      tensor(i).add_memory(to, i, true, as_one);
      if (of_gradients) tensor(i).add_memory(to, i, false, as_one);
    };
    for (std::size_t i = 0; i < size(); ++i)
      if (!tensor(i).is_local) add(all, i, true);
    if (!first_overlap(all, of_gradients)) return;
    const std::vector<char> overlap = that_overlap(all, size());
    for (std::size_t i = 0; i < size(); ++i)
      if (overlap[i]) add(runs, i, false);
    const auto found = first_overlap(runs, of_gradients);
    if (!found) return;
    const auto& [a, b] = *found;
    const bool differ = a.is_value != b.is_value;
    const auto in_words = [&](const memory_of& m) {
      return (!differ ? "" : m.is_value ? "the value of " : "the gradient of ") + tensor(m.parameter).name;
    };
    throw error{errc::invalid_argument,
                in_words(a) + " and " + in_words(b) + " share elements: " +
                    (differ ? "each value and each gradient has memory of its own"
                            : "a tensor that several layers use is one parameter, and is named once")};
  }
  std::string not_ready(std::size_t i) const {
    return "step before the end of the backward pass: " + tensor(i).name + " is not ready";
  }
  bool is_all_zero() const {
    return std::all_of(tensors_.begin(), tensors_.end(), [](const auto& t) { return t->is_all_zero(); });
  }

  operator_traits op_;
  std::vector<std::unique_ptr<any_tensor>> tensors_;
  int passes_, pass_ = 0;
  bool are_leaves_;
  double before_;                            ///< the factor of a gradient before its exchange
  bool has_residual_;                        ///< error feedback
  std::vector<std::vector<float>> rests_{};  ///< residuals of each bucket, for a wire format with scales
  std::vector<char> marks_;                  ///< ready, in this pass
  std::vector<char> had_numbers_;            ///< not all zero when it was ready
  std::size_t mark_count_ = 0;
  bool is_exchanged_ = false, has_numbers_ = false, uses_ready_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::train
