// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an optimizer of this library knows of one rank's gradients: where they lie, how far the backward passes are, and what must not have happened.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/gradients.hpp>
#include <kolo/train/buckets.hpp>
#include <kolo/train/predivide.hpp>
#include <kolo/view/bucket.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline v0::detail {

/// Functions named `refuses_...` say in a sentence what is wrong; nothing if all is well.
template <class Range, class Op>
class local_gradients {
  using range = std::remove_reference_t<Range>;
  using value_view = typename decltype(values_of(std::declval<range&>()))::value_type;
  using gradient_view = typename decltype(gradients_of(std::declval<range&>()))::value_type;

 public:
  using parameter = std::remove_reference_t<item_of<range>>;
  using element = typename gradient_view::element_type;
  using gradient_bucket = bucket<element>;
  using value_bucket = bucket<typename value_view::element_type>;
  using refusal = std::optional<std::string>;

  local_gradients(range& parameters, Op op, int ranks, int passes, bool feedback)
      : op_{std::move(op)}, values_{values_of(parameters)}, gradients_{gradients_of(parameters)}, passes_{passes},
        before_{1.0 / (divides<Op> ? passes : 1) / (ranks > 1 ? divisor_before(op_) : 1)}, keeps_rest_{feedback && ranks > 1},
        marks_(gradients_.size(), 0), had_numbers_(gradients_.size(), 0), rest_(feedback ? gradients_.size() : 0) {
    if (passes < 1) throw error{errc::invalid_argument, "an optimizer takes at least one backward pass, not " + std::to_string(passes)};
    if (feedback && !has_wire) throw error{errc::invalid_argument, "error feedback keeps what wire<...>(op) rounds away, and this operator has no wire type"};
    for (auto&& p : parameters) {
      const std::size_t i = names_.size();
      names_.push_back(name_of(p, i));
      is_local_.push_back(detail::is_local(p));
      is_sparse_.push_back(rows_of(p) != nullptr);
      const std::size_t n = values_[i].size(), m = gradients_[i].size();
      if (n != m)
        throw error{errc::invalid_argument, names_[i] + " has " + std::to_string(n) + " values, but a gradient of " + std::to_string(m)};
    }
  }

  const Op& op() const { return op_; }
  std::size_t size() const { return gradients_.size(); }
  bool is_local(std::size_t i) const { return is_local_[i] != 0; }
  const value_view& value(std::size_t i) const { return values_[i]; }
  const gradient_view& gradient(std::size_t i) const { return gradients_[i]; }

  /// Collective: ranks that plan something else are an error on all of them.
  template <kind K, class Comm>
  bucket_plan plan(Comm& comm, bucket_rules rules, bool rows_are_apart) const {
    std::vector<std::size_t> elements;
    std::size_t all = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      const bool is_in = !is_local_[i] && !(is_sparse_[i] && rows_are_apart);
      elements.push_back(is_in ? gradients_[i].size() : not_planned);
      if (is_in) all += gradients_[i].size();
    }
    if (rules.cap_bytes == 0) rules.cap_bytes = chosen_cap<K>(*comm.engine(), all * sizeof(element));
    bucket_plan made = plan_buckets(elements, sizeof(element), rules);
    made.names = names_;
    std::uint64_t digests = digest_of(made);
    const std::uint64_t expected = digests * static_cast<std::uint64_t>(comm.size());
    const std::span one{&digests, 1};
    start_allreduce(comm, one, sum).wait();
    if (digests != expected)
      throw error{errc::mismatch, "ranks plan different buckets: number, order or sizes of their parameters, or the options, differ; here: " + made.message()};
    return made;
  }

  std::vector<gradient_bucket> buckets_of_gradients(const bucket_plan& plan) const { return buckets_of<gradient_bucket>(gradients_, plan); }
  std::vector<value_bucket> buckets_of_values(const bucket_plan& plan) const { return buckets_of<value_bucket>(values_, plan); }

  template <class Queue>
  refusal refuses_ready(range& parameters, std::size_t i, const Queue& queue) const {
    if (i >= size()) return "there is no parameter " + std::to_string(i);
    if (is_exchanged_) return names_[i] + " was ready after the gradients had been exchanged, and before the step";
    if (marks_[i] || queue.is_marked(i)) return names_[i] + " was ready twice: step() was not called after the backward pass, or options.passes is too small";
    return refuses_shape(*std::next(std::begin(parameters), static_cast<std::ptrdiff_t>(i)), i);
  }
  void note_ready(std::size_t i) {
    uses_ready_ = true;
    had_numbers_[i] = !detail::is_all_zero(gradients_[i]);
  }
  void mark(std::size_t i) { marks_[i] = 1; }

  template <class Queue>
  refusal refuses_exchange(range& parameters, const Queue& queue) const {
    if (is_exchanged_) return "the gradients have been exchanged already, and no step was made with them";
    std::size_t i = 0;
    for (auto&& p : parameters) {
      if (i == size()) break;
      if (auto wrong = refuses_shape(p, i)) return wrong;
      if (queue.is_begun() && !queue.is_marked(i) && !is_local_[i]) return not_ready(i);
      ++i;
    }
    if (i != static_cast<std::size_t>(std::distance(std::begin(parameters), std::end(parameters))) || i != size())
      return "there are more or fewer parameters than at the beginning";
    if (uses_ready_ && !queue.is_begun()) return "step without a backward pass: no gradient is ready";
    if (is_zeroed_ && is_all_zero()) return "step without a backward pass: all gradients are still the zeros of zero_gradients(). A rank without data joins";
    return {};
  }

  /// Just before gradient i is exchanged.
  refusal prepare(std::size_t i) {
    if (had_numbers_[i] && detail::is_all_zero(gradients_[i])) return names_[i] + ": the gradient was zeroed between the backward pass and the step";
    if (before_ != 1) scale(gradients_[i], before_);
    if constexpr (has_wire)
      if (keeps_rest_) round_with_feedback<typename Op::wire_element>(gradients_[i], rest_[i]);
    return {};
  }
  /// The same of gradients that are not in buckets: exchanged as rows, or not at all.
  void prepare_others(bool rows_are_apart) {
    const double own = 1.0 / (divides<Op> ? passes_ : 1);
    for (std::size_t i = 0; i < size(); ++i)
      if (const double factor = is_local_[i] ? own : before_; factor != 1 && (is_local_[i] || (is_sparse_[i] && rows_are_apart))) scale(gradients_[i], factor);
  }

  /// Before the end of a pass that is not the last.
  refusal refuses_pass() const {
    if (is_last_pass() || !uses_ready_) return {};
    for (std::size_t i = 0; i < size(); ++i)
      if (!marks_[i] && !is_local_[i]) return not_ready(i);
    return {};
  }
  bool is_last_pass() const { return pass_ + 1 >= passes_; }
  bool is_exchanged() const { return is_exchanged_; }
  /// At the end of a backward pass: are more to come?
  bool ends_pass() {
    if (is_last_pass()) return false;
    ++pass_;
    marks_.assign(marks_.size(), 0);
    return true;
  }
  void note_exchanged() {
    is_exchanged_ = true;
    had_numbers_.assign(had_numbers_.size(), 0);
    has_numbers_ = !is_all_zero();
  }
  refusal refuses_update() const {
    if (has_numbers_ && is_all_zero()) return "the gradients were zeroed between their exchange and the step";
    return {};
  }
  void note_updated() {
    is_exchanged_ = is_zeroed_ = has_numbers_ = false;
    pass_ = 0;
  }

  void scale_exchanged(double factor) {
    for (std::size_t i = 0; i < size(); ++i)
      if (!is_local_[i]) scale(gradients_[i], factor);
  }
  void zero(range& parameters) {
    for (const auto& view : gradients_) for_runs(view, [](auto run) { std::fill(run.begin(), run.end(), element{}); });
    for (auto&& p : parameters)
      if (row_list* const rows = rows_of(p)) rows->touched.clear();
  }
  void note_zeroed() { is_zeroed_ = true; }

 private:
  static constexpr bool has_wire = requires { typename Op::wire_element; };

  template <class Bucket, class Views>
  static std::vector<Bucket> buckets_of(const Views& views, const bucket_plan& plan) {
    std::vector<Bucket> all;
    for (const auto& b : plan.buckets) {
      Views parts;
      for (const std::size_t i : b.parameters) parts.push_back(views[i]);
      all.push_back(Bucket{parts});
    }
    return all;
  }

  std::string not_ready(std::size_t i) const { return "step before the backward pass is over: " + names_[i] + " is not ready"; }

  template <View V>
  static bool is_same_place(const V& a, const V& b) {
    if (a.size() != b.size()) return false;
    if (a.size() == 0) return true;
    if constexpr (ContiguousView<V>) return a.data() == b.data();
    else return a.run(0).data() == b.run(0).data();
  }
  template <class P>
  refusal refuses_shape(P&& p, std::size_t i) const {
    const auto value = kolo::as_view(p.value);
    const auto gradient = kolo::as_view(p.gradient);
    if (is_same_place(value, values_[i]) && is_same_place(gradient, gradients_[i])) return {};
    if (value.size() == values_[i].size() && gradient.size() == gradients_[i].size()) return names_[i] + " lies elsewhere than when the optimizer was made";
    return names_[i] + " changed its shape: from " + std::to_string(values_[i].size()) + " values to " + std::to_string(value.size()) +
           ", with a gradient of " + std::to_string(gradient.size()) + "; make a new optimizer";
  }
  bool is_all_zero() const {
    return std::all_of(gradients_.begin(), gradients_.end(), [](const auto& g) { return detail::is_all_zero(g); });
  }

  Op op_;
  std::vector<value_view> values_;
  std::vector<gradient_view> gradients_;
  int passes_, pass_ = 0;
  double before_;               ///< what a gradient is multiplied by before it is exchanged
  bool keeps_rest_;
  std::vector<char> marks_;     ///< ready, in a pass that is not the last
  std::vector<char> had_numbers_;  ///< not all zero when it was ready
  std::vector<std::vector<element>> rest_;  ///< what error feedback keeps
  std::vector<std::string> names_{};
  std::vector<char> is_local_{}, is_sparse_{};
  bool is_exchanged_ = false, is_zeroed_ = false, has_numbers_ = false, uses_ready_ = false;
};

}  // namespace kolo::inline v0::detail
