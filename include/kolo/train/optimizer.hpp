// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An optimizer whose every step uses the gradients averaged over all ranks: wrap the one that a plain training loop has.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/gradients.hpp>
#include <kolo/train/local_gradients.hpp>
#include <kolo/train/overlap.hpp>
#include <kolo/train/sparse.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline v0 {

/// May ranks run out of data before others (`join`)? Then by how many ranks an average divides.
enum class uneven {
  refused,        ///< they may not: a rank that takes fewer steps is an error of the others (`errc::mismatch`, `errc::peer_left`)
  by_all,         ///< a rank that has joined counts, with gradients of zero
  by_those_left   ///< only ranks that still have data count
};

struct optimizer_options {
  std::size_t bucket_bytes = 0;                     ///< no bucket is longer; 0: chosen by the cost model (train/buckets.hpp)
  std::vector<std::vector<std::size_t>> groups{};   ///< parameters, by index, that are one bucket whatever their size
  int passes = 1;                                   ///< backward passes whose gradients add up before they are exchanged
  bool error_feedback = false;                      ///< what `wire` rounds away is kept and added to the next step's gradients
  double density = 0.25;                            ///< above it the rows of a sparse gradient are exchanged as a dense one
  uneven inputs = uneven::refused;
  background* helper = nullptr;                     ///< carries the exchange on while this thread computes (train/background.hpp)
};

/// distributed_optimizer optimizer{comm, inner, parameters [, op] [, algorithm] [, options]};
///
/// Op is `average`, unless said otherwise: `sum`, `wire<bfloat16>(average)`, `predivide(average, 8)`... Gradients are exchanged where they lie, in
/// buckets (train/buckets.hpp), without a copy, and without an allocation after the first step. Ranks that begin with equal parameters keep equal parameters,
/// bit for bit; buckets, and with them the last bits, may be others on another transport, unless `bucket_bytes` is said.
///
///     backward(model, batch);                            or   while it runs: optimizer.ready(i) as soon as gradient i is complete
///     optimizer.step();                                  or   optimizer.synchronize(); clip_by_global_norm(parameters, 1.0); optimizer.step();
///
/// Before: all ranks construct it together, for parameters of the same number, order and sizes; communicator and tensors outlive
/// it and stay in their places. `Range` is a reference when the parameters outlive it, and otherwise the parameters themselves.
/// With `passes` = k, step() is called after each backward pass, the gradients add up in place (nobody zeroes them), and every k-th call exchanges and
/// updates; where op divides, it is their mean. Between the first `ready` of an exchange and its end the communicator is the optimizer's.
/// Errors: `mismatch` where ranks plan different buckets; `invalid_argument`, on the others `peer_failed`, for a gradient that is longer or shorter than its
/// value, `ready` twice, `step` while some gradient is not ready or all are still zero, gradients zeroed before the step, a parameter that
/// has changed its shape or place; those of `kolo::allreduce`.
template <class Comm, class Optimizer, class Range, class Algorithm = automatic, class Op = average_t>
class distributed_optimizer {
  static_assert(Parameters<Range>, "kolo: parameters are a range of items with .value and .gradient, of one element type");
  static_assert(OptimizerFor<Optimizer, Range>, "kolo: an optimizer has step(index, value, gradient)");
  using wire_type = typename Comm::transport_type;
  using local = detail::local_gradients<Range, Op>;

 public:
  distributed_optimizer(Comm& comm, Optimizer inner, Range&& parameters, const optimizer_options& o = {})
      : distributed_optimizer(comm, std::move(inner), std::forward<Range>(parameters), Op{}, Algorithm{}, o) {}
  template <detail::AnyAlgorithm A>
  distributed_optimizer(Comm& comm, Optimizer inner, Range&& parameters, A algorithm, const optimizer_options& o = {})
      : distributed_optimizer(comm, std::move(inner), std::forward<Range>(parameters), Op{}, std::move(algorithm), o) {}
  template <AnyOperator O>
  distributed_optimizer(Comm& comm, Optimizer inner, Range&& parameters, O op, const optimizer_options& o = {})
      : distributed_optimizer(comm, std::move(inner), std::forward<Range>(parameters), std::move(op), Algorithm{}, o) {}
  distributed_optimizer(Comm& comm, Optimizer inner, Range&& parameters, Op op, Algorithm algorithm, const optimizer_options& o = {})
      : comm_{comm}, inner_{std::move(inner)}, parameters_{std::forward<Range>(parameters)}, algorithm_{std::move(algorithm)}, options_{o},
        local_{parameters_, std::move(op), comm.size(), o.passes, o.error_feedback},
        plan_{local_.template plan<kind::allreduce>(comm, {.cap_bytes = o.bucket_bytes, .groups = o.groups}, true)},
        views_{local_.buckets_of_gradients(plan_)}, queue_{*comm.engine(), *this, plan_, local_.size(), o.helper} {}
  distributed_optimizer(const distributed_optimizer&) = delete;
  distributed_optimizer& operator=(const distributed_optimizer&) = delete;

  /// The backward pass has completed gradient `index` and does not touch it any more until the step is over. When all of a bucket are,
  /// and the buckets before it have been started, its exchange starts.
  void ready(std::size_t index) {
    if (const auto wrong = local_.refuses_ready(parameters_, index, queue_)) refuse(*wrong);
    local_.note_ready(index);
    if (local_.is_last_pass()) queue_.mark(index);
    else local_.mark(index);
  }

  /// Carries on what was started; never waits. Nobody has to call it: `ready` does, and so does a helper.
  void progress() { queue_.progress(); }

  /// Waits until all gradients are averaged, and updates nothing: for what must happen between the two, such as clipping.
  void synchronize() {
    if (const auto wrong = local_.refuses_exchange(parameters_, queue_)) refuse(*wrong);
    exchange();
  }

  /// After a backward pass. Averages the gradients, unless `synchronize` has just done so, and lets the inner optimizer update every parameter: true.
  /// False: nothing was done, since more backward passes are to come.
  bool step() {
    if (const auto wrong = local_.refuses_pass()) refuse(*wrong);
    if (local_.ends_pass()) return false;
    if (!local_.is_exchanged()) synchronize();
    if (const auto wrong = local_.refuses_update()) refuse(*wrong);
    update();
    return true;
  }

  /// This rank has no more data: takes part in the others' steps until they have none either. Returns how many these were. All ranks call it at
  /// the end of an epoch, and all return together, with the same parameters. Before: no backward pass is under way.
  std::size_t join() {
    if (options_.inputs == uneven::refused) refuse("join needs to be asked for: options.inputs = uneven::by_all or by_those_left");
    if (queue_.is_begun()) refuse("join was called in the middle of a backward pass");
    for (std::size_t steps = 0;; ++steps) {
      local_.zero(parameters_);
      has_data_ = false;
      prepare_join();
      join_->wait();
      if (active_ == 0) return has_data_ = true, joins_begun_ = false, steps;
      exchange();
      update();
    }
  }

  /// Fills all gradients with zeros; not between a backward pass and its step.
  void zero_gradients() {
    if (queue_.is_begun()) refuse("gradients were to be zeroed between the backward pass and the step");
    local_.zero(parameters_);
    local_.note_zeroed();
  }

  Optimizer& inner() { return inner_; }                       ///< the wrapped one: to set its learning rate, say
  const bucket_plan& buckets() const { return plan_; }
  const overlap_report& overlap() const { return queue_.report(); }   ///< of the last exchange

 private:
  friend detail::bucket_queue<wire_type, distributed_optimizer>;

  [[noreturn]] void refuse(const std::string& sentence) {
    if (queue_.is_lent()) throw error{errc::invalid_argument, sentence};  // the communicator is the helper's
    comm_.engine()->refuse("optimizer", sentence);
  }

  void exchange() {
    if (plan_.buckets.empty()) prepare_join();
    queue_.finish([](std::size_t) {});
    local_.prepare_others(true);
    if constexpr (detail::MayBeSparse<typename local::parameter>) {
      for (auto&& p : parameters_)
        if (row_list* const rows = detail::rows_of(p); rows && !detail::is_local(p))
          detail::exchange_rows(comm_, kolo::as_view(p.gradient), *rows, local_.op(), options_.density);
    }
    account_for_joined();
    local_.note_exchanged();
  }

  void prepare(std::size_t b) {
    if (b == 0) prepare_join();
    for (const std::size_t i : plan_.buckets[b].parameters)
      if (const auto wrong = local_.prepare(i)) comm_.engine()->refuse("optimizer", *wrong);
  }
  request<wire_type> start(std::size_t b) { return start_allreduce(comm_, views_[b], local_.op(), algorithm_); }

  /// Counts the ranks that have data: a small operation before the first bucket.
  void prepare_join() {
    if (options_.inputs == uneven::refused || joins_begun_) return;
    active_ = has_data_ ? 1 : 0;
    joins_begun_ = true;
    if (join_) join_->restart();
    else join_.emplace(start_allreduce(comm_, counted_, sum));
  }
  void account_for_joined() {
    if (!std::exchange(joins_begun_, false)) return;
    join_->wait();
    const bool divides = detail::divides<Op> && options_.inputs == uneven::by_those_left;
    const double all = comm_.size(), left = static_cast<double>(active_);
    if (divides && left != all) local_.scale_exchanged(all / left);
  }

  void update() {
    std::size_t index = 0;
    for (auto&& p : parameters_) inner_.step(index++, p.value, p.gradient);
    local_.note_updated();
  }

  Comm& comm_;
  Optimizer inner_;
  Range parameters_;
  Algorithm algorithm_;
  optimizer_options options_;
  local local_;
  bucket_plan plan_;
  std::vector<typename local::gradient_bucket> views_;
  std::uint64_t active_ = 0;             ///< ranks that have data
  std::span<std::uint64_t> counted_{&active_, 1};
  bool has_data_ = true, joins_begun_ = false;
  std::optional<request<wire_type>> join_{};
  detail::bucket_queue<wire_type, distributed_optimizer> queue_;
};

template <class Comm, class Optimizer, class Range>
distributed_optimizer(Comm&, Optimizer, Range&&, const optimizer_options& = {}) -> distributed_optimizer<Comm, Optimizer, Range>;
template <class Comm, class Optimizer, class Range, detail::AnyAlgorithm A>
distributed_optimizer(Comm&, Optimizer, Range&&, A, const optimizer_options& = {}) -> distributed_optimizer<Comm, Optimizer, Range, A>;
template <class Comm, class Optimizer, class Range, AnyOperator Op>
distributed_optimizer(Comm&, Optimizer, Range&&, Op, const optimizer_options& = {}) -> distributed_optimizer<Comm, Optimizer, Range, automatic, Op>;
template <class Comm, class Optimizer, class Range, AnyOperator Op, detail::AnyAlgorithm A>
distributed_optimizer(Comm&, Optimizer, Range&&, Op, A, const optimizer_options& = {}) -> distributed_optimizer<Comm, Optimizer, Range, A, Op>;

}  // namespace kolo::inline v0
