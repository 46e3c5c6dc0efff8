// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An optimizer of which every rank keeps one part: it updates its slice of the parameters, and gets the others' slices from them (ZeRO-1).
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/train/local_gradients.hpp>
#include <kolo/train/overlap.hpp>
#include <kolo/train/update.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace kolo::inline v0 {

struct sharded_options {
  std::size_t bucket_bytes = 0;                     ///< as in `optimizer_options`
  std::vector<std::vector<std::size_t>> groups{};
  int passes = 1;
  bool error_feedback = false;
  background* helper = nullptr;
};

/// Elements of a parameter that belong to this rank.
struct owned_slice {
  std::size_t parameter = 0, first = 0, count = 0;
  std::size_t bucket = 0, offset = 0;  ///< where they stand in this rank's part of that bucket
};

/// sharded_optimizer optimizer{comm, update::adamw{...}, parameters [, op] [, algorithm] [, options]};
///
/// Each bucket of gradients is reduced and scattered, in place; each rank updates the block that is its own, right behind that bucket's reduction,
/// and allgathers the parameters. Any number of ranks and elements: block r of a bucket is kolo::block(n, p, r). Sends and receives what an
/// allreduce does; state is 1/p of it. `ready`, `progress`, `synchronize`, `step`, `passes`, buckets, helper, and what is refused: as in
/// `distributed_optimizer`; in between gradients have their sum in this rank's slices only. Local parameters are updated here alone.
///
/// The same bits as `distributed_optimizer` with `replicated<Rule>` where the gradients have the same bits: with any algorithm where sums are exact,
/// and with those whose allreduce is their reduce_scatter and their allgather (ring, circulant, two_shot) and equal buckets. Else up to rounding.
/// Not here: rows (exchanged as dense), joining.
template <class Comm, class Rule, class Range, class Algorithm = automatic, class Op = average_t>
class sharded_optimizer {
  static_assert(Parameters<Range>, "kolo: parameters are a range of items with .value and .gradient, of one element type");
  using wire_type = typename Comm::transport_type;
  using local = detail::local_gradients<Range, Op>;
  using T = typename local::element;
  static_assert(UpdateRule<Rule, T>, "kolo: an update rule has states and rule(value, gradient, state, step); see kolo/train/update.hpp");

 public:
  sharded_optimizer(Comm& comm, Rule r, Range&& parameters, const sharded_options& o = {})
      : sharded_optimizer(comm, std::move(r), std::forward<Range>(parameters), Op{}, Algorithm{}, o) {}
  template <detail::AnyAlgorithm A>
  sharded_optimizer(Comm& comm, Rule r, Range&& parameters, A algorithm, const sharded_options& o = {})
      : sharded_optimizer(comm, std::move(r), std::forward<Range>(parameters), Op{}, std::move(algorithm), o) {}
  template <AnyOperator O>
  sharded_optimizer(Comm& comm, Rule r, Range&& parameters, O op, const sharded_options& o = {})
      : sharded_optimizer(comm, std::move(r), std::forward<Range>(parameters), std::move(op), Algorithm{}, o) {}
  sharded_optimizer(Comm& comm, Rule r, Range&& parameters, Op op, Algorithm algorithm, const sharded_options& o = {})
      : rule{std::move(r)}, comm_{comm}, parameters_{std::forward<Range>(parameters)}, algorithm_{std::move(algorithm)},
        local_{parameters_, std::move(op), comm.size(), o.passes, o.error_feedback},
        plan_{local_.template plan<kind::reduce_scatter>(comm, {.cap_bytes = o.bucket_bytes, .groups = o.groups}, false)},
        gradients_{local_.buckets_of_gradients(plan_)}, values_{local_.buckets_of_values(plan_)},
        queue_{*comm.engine(), *this, plan_, local_.size(), o.helper} {
    for (std::size_t b = 0; b < gradients_.size(); ++b) divide(b);
    local_states_.resize(local_.size());
  }
  sharded_optimizer(const sharded_optimizer&) = delete;
  sharded_optimizer& operator=(const sharded_optimizer&) = delete;

  void ready(std::size_t index) {
    if (const auto wrong = local_.refuses_ready(parameters_, index, queue_)) refuse(*wrong);
    local_.note_ready(index);
    if (local_.is_last_pass()) queue_.mark(index);
    else local_.mark(index);
  }
  void progress() { queue_.progress(); }

  /// Afterwards this rank's slices of the gradients are averaged; no parameter has changed.
  void synchronize() {
    if (const auto wrong = local_.refuses_exchange(parameters_, queue_)) refuse(*wrong);
    queue_.finish([](std::size_t) {});
    local_.prepare_others(false);
    local_.note_exchanged();
  }

  /// As kolo::clip_by_global_norm, after `synchronize`: every rank adds up its slices, and one number is exchanged.
  double clip_by_global_norm(double limit) {
    double squares = 0;
    for (const auto& own : own_gradients_) squares += detail::sum_of_squares(own);
    kolo::allreduce(comm_, std::span{&squares, 1}, sum);
    const double norm = std::sqrt(squares), factor = detail::clip_factor(norm, limit);
    for (const auto& own : own_gradients_)
      if (factor != 1) detail::scale(own, factor);
    return norm;
  }

  /// True: every rank has all updated parameters. False: more backward passes are to come.
  bool step() {
    if (const auto wrong = local_.refuses_pass()) refuse(*wrong);
    if (local_.ends_pass()) return false;
    ++steps_;
    if (local_.is_exchanged()) {
      if (const auto wrong = local_.refuses_update()) refuse(*wrong);
      for (std::size_t b = 0; b < plan_.buckets.size(); ++b) update_bucket(b);
    } else {
      if (const auto wrong = local_.refuses_exchange(parameters_, queue_)) refuse(*wrong);
      queue_.finish([this](std::size_t b) { update_bucket(b); });
      local_.prepare_others(false);
      local_.note_exchanged();
    }
    for (std::size_t i = 0; i < local_.size(); ++i)
      if (local_.is_local(i)) detail::apply(rule, local_.value(i), local_.gradient(i), local_states_[i], steps_);
    for (auto& g : gathers_) g.wait();
    local_.note_updated();
    return true;
  }

  void zero_gradients() {
    if (queue_.is_begun()) refuse("gradients were to be zeroed between the backward pass and the step");
    local_.zero(parameters_);
    local_.note_zeroed();
  }

  const bucket_plan& buckets() const { return plan_; }
  const overlap_report& overlap() const { return queue_.report(); }
  std::size_t state_bytes() const {
    std::size_t elements = 0;
    for (const auto& s : states_) elements += s.size();
    for (const auto& s : local_states_) elements += s.size();
    return elements * sizeof(T);
  }

  /// For checkpoints: what is this rank's own, in an order that is the same in every run on as many ranks; the number of steps; state k
  /// of a slice; its values; and all values again from all ranks, after the slices have been set.
  const std::vector<owned_slice>& slices() const { return slices_; }
  long& steps() { return steps_; }
  std::span<T> state_of(const owned_slice& s, std::size_t k) {
    return std::span{states_[s.bucket]}.subspan(k * own_values_[s.bucket].size() + s.offset, s.count);
  }
  bucket<T> values_of(const owned_slice& s) { return own_values_[s.bucket].part(s.offset, s.count); }
  std::size_t elements() const {  ///< of all ranks
    std::size_t all = 0;
    for (const auto& b : plan_.buckets) all += b.elements;
    return all;
  }
  Comm& comm() { return comm_; }
  void share_values() {
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) start_gather(b);
    for (auto& g : gathers_) g.wait();
  }

  Rule rule;  ///< to set its rate, say

 private:
  friend detail::bucket_queue<wire_type, sharded_optimizer>;

  [[noreturn]] void refuse(const std::string& sentence) {
    if (queue_.is_lent()) throw error{errc::invalid_argument, sentence};
    comm_.engine()->refuse("optimizer", sentence);
  }

  /// Which part of bucket b is whose.
  void divide(std::size_t b) {
    const std::size_t n = gradients_[b].size();
    const extent own = block(n, comm_.size(), comm_.rank());
    own_gradients_.push_back(gradients_[b].part(own.first, own.count));
    own_values_.push_back(values_[b].part(own.first, own.count));
    states_.emplace_back(Rule::states * own.count);
    counts_.emplace_back();
    for (int r = 0; r < comm_.size(); ++r) counts_.back().push_back(block(n, comm_.size(), r).count);
    std::size_t at = 0;
    for (const std::size_t i : plan_.buckets[b].parameters) {
      const std::size_t end = at + local_.value(i).size(), from = std::max(at, own.first), to = std::min(end, own.first + own.count);
      if (from < to) slices_.push_back({.parameter = i, .first = from - at, .count = to - from, .bucket = b, .offset = from - own.first});
      at = end;
    }
  }

  void prepare(std::size_t b) {
    for (const std::size_t i : plan_.buckets[b].parameters)
      if (const auto wrong = local_.prepare(i)) comm_.engine()->refuse("optimizer", *wrong);
  }
  request<wire_type> start(std::size_t b) {
    return start_reduce_scatter(comm_, gradients_[b], own_gradients_[b], local_.op(), algorithm_);
  }

  void update_bucket(std::size_t b) {
    detail::apply(rule, own_values_[b], own_gradients_[b], states_[b], steps_);
    start_gather(b);
  }
  void start_gather(std::size_t b) {
    if (b < gathers_.size()) return gathers_[b].restart();
    const bool is_even = gradients_[b].size() % static_cast<std::size_t>(comm_.size()) == 0;  // more algorithms take equal parts
    if (is_even) gathers_.push_back(start_allgather(comm_, own_values_[b], values_[b], algorithm_));
    else gathers_.push_back(start_allgather(comm_, own_values_[b], values_[b], counts_[b], algorithm_));
  }

  Comm& comm_;
  Range parameters_;
  Algorithm algorithm_;
  local local_;
  bucket_plan plan_;
  std::vector<bucket<T>> gradients_, values_, own_gradients_{}, own_values_{};
  std::vector<std::vector<T>> states_{}, local_states_{};
  std::vector<std::vector<std::size_t>> counts_{};
  std::vector<owned_slice> slices_{};
  long steps_ = 0;
  std::vector<request<wire_type>> gathers_{};
  detail::bucket_queue<wire_type, sharded_optimizer> queue_;
};

template <class Comm, class Rule, class Range>
sharded_optimizer(Comm&, Rule, Range&&, const sharded_options& = {}) -> sharded_optimizer<Comm, Rule, Range>;
template <class Comm, class Rule, class Range, detail::AnyAlgorithm A>
sharded_optimizer(Comm&, Rule, Range&&, A, const sharded_options& = {}) -> sharded_optimizer<Comm, Rule, Range, A>;
template <class Comm, class Rule, class Range, AnyOperator Op>
sharded_optimizer(Comm&, Rule, Range&&, Op, const sharded_options& = {}) -> sharded_optimizer<Comm, Rule, Range, automatic, Op>;
template <class Comm, class Rule, class Range, AnyOperator Op, detail::AnyAlgorithm A>
sharded_optimizer(Comm&, Rule, Range&&, Op, A, const sharded_options& = {}) -> sharded_optimizer<Comm, Rule, Range, A, Op>;

}  // namespace kolo::inline v0
