// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A data-parallel optimizer: averages the gradients over all ranks before each step of the wrapped optimizer.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/typed_exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::train {

/// Gradients of a bucket, in place; and a packed copy for the exchange, if runs are so short that packing is faster.
///
/// Time packed / time in place, measured on two cores over shared memory and MPICH, 2 and 4 ranks: 1000 tensors of 4 to
/// 64 bytes 0.3 to 0.8, of 64 to 1024 bytes (544 on average) 0.5 to 0.95; 300 of 1 KiB each 1.1 to 1.3; 100 of 4 to 32
/// KiB 1.1 to 1.9 over shared memory.
template <class T>
struct packed_bucket {
  static constexpr std::size_t long_run_bytes = 640;

  packed_bucket(bucket<T> of, bool may_pack) : gradients{std::move(of)} {
    if (!may_pack) return;
    std::size_t runs = 0;
    view::for_runs(gradients, [&](auto) { ++runs; });
    if (runs > 1 && gradients.size() * sizeof(T) / runs < long_run_bytes) packed.resize(gradients.size());
  }
  bool is_packed() const { return !packed.empty(); }
  void pack() {
    T* to = packed.data();
    if (is_packed()) view::for_runs(gradients, [&](auto run) { to = std::copy(run.begin(), run.end(), to); });
  }
  void unpack() {
    const T* from = packed.data();
    if (is_packed())
      view::for_runs(gradients, [&](auto run) { std::copy_n(from, run.size(), run.begin()), from += run.size(); });
  }

  bucket<T> gradients;
  std::vector<T> packed{};
};

}  // namespace detail::train

/// distributed_optimizer optimizer{comm, inner, parameters [, op] [, algorithm] [, options]};
///
/// Op defaults to `average`; others are `sum`, `wire<bfloat16>(average)`, `predivide(average, 8)`. Gradients are
/// exchanged in buckets (train/buckets.hpp), in place except for buckets of many tiny tensors, which are packed.
/// Nothing is allocated after the first step, except for gradients with `.rows`. Ranks that start with equal parameters
/// keep bitwise equal parameters. Another transport may plan other buckets, and so give other last bits, unless
/// `bucket_bytes` is set.
///
///     backward(model, batch);  // or while it runs: optimizer.ready(i) as soon as gradient i is complete
///     optimizer.step();        // or: optimizer.synchronize(); clip_by_global_norm(parameters, 1.0); optimizer.step();
///
/// | member | what it does |
/// |---|---|
/// | `bool step()` | exchanges the gradients not exchanged yet, and updates; false: more passes of this step follow |
/// | `void ready(std::size_t i)` | gradient i is complete: its bucket is exchanged when all of its gradients are |
/// | `void progress()` | progresses started exchanges; never waits |
/// | `void synchronize()` | waits until all gradients are exchanged; updates nothing |
/// | `void skip_step()` | after synchronize, instead of step, on all ranks: updates nothing |
/// | `std::size_t join()` | this rank has no more data: takes part in steps until no rank has any; returns how many |
/// | `leaves()`, `void leaf(int)` | with options.leaves: this rank's micro-batches; leaf(i) after each, then step() |
/// | `void zero_gradients()` | sets all gradients to zero; not between a backward pass and its step |
/// | `Optimizer& inner()` | the wrapped optimizer, for example to set its learning rate |
/// | `const bucket_plan& buckets()` | the buckets; can be printed |
/// | `const overlap_report& overlap()` | how much of the last exchange was hidden by computation |
///
/// Before: all ranks construct it together, for parameters of the same number, order and sizes; communicator and
/// tensors must outlive it and keep their addresses. All ranks step several optimizers on one communicator in the same
/// order. `Range` is a reference for an lvalue, which must outlive the optimizer; an rvalue is stored. With `passes` =
/// k, step() is called after each backward pass, gradients accumulate in place (do not zero them), and every k-th call
/// exchanges and updates; if op divides, it averages over the passes, too. Between the first `ready` of an exchange and
/// its end only the optimizer may use the communicator. Errors: `mismatch` if ranks plan different buckets, step
/// different optimizers, or if one skips a step alone; at construction `invalid_argument`, on the other ranks
/// `mismatch`, for parameters that share elements, a gradient whose length differs from its value's, and invalid
/// options; `invalid_argument`, on the other ranks `peer_failed`, for `ready` twice, `step` before every gradient is
/// ready, gradients zeroed between `ready` or `synchronize` and the step, a parameter whose shape, address or kind
/// (`.local`, `.rows`) has changed; `invalid_argument`, on this rank alone, if the helper has another optimizer's
/// exchange (train/background.hpp); those of `kolo::allreduce`. step() rethrows exceptions of the wrapped optimizer and
/// ends the step; parameters updated before stay updated.
template <class Comm, class Optimizer, class Range, class Algorithm = automatic, class Op = average_t>
  requires detail::core::own_header::includes_kolo_train_hpp<Comm>
class distributed_optimizer
    : public detail::train::typed_exchange<distributed_optimizer<Comm, Optimizer, Range, Algorithm, Op>,
                                           kind::allreduce, Comm, Optimizer, Range, Algorithm, Op> {
  static_assert(
      OptimizerFor<Optimizer, Range>,
      "kolo: an optimizer has step(index, value, gradient); write kolo::replicated{rule} for an update rule, such as "
      "kolo::update::sgd");
  using base =
      detail::train::typed_exchange<distributed_optimizer, kind::allreduce, Comm, Optimizer, Range, Algorithm, Op>;
  using packed_gradients = detail::train::per_element<detail::train::packed_bucket, Range>;
  using typename base::hooks, typename base::leaf_sums, typename base::wire_type;

 public:
  using base::base;
  ~distributed_optimizer() { this->queue_.end(); }

 private:
  friend hooks;

  std::vector<packed_gradients> make_packed() {
    std::vector<packed_gradients> all;
    for (auto& b : this->plan_.buckets)
      this->with_tensors(b.range, b.parameters, [&](auto index, const auto&, const auto& gradients) {
        all.push_back(packed_gradients{std::in_place_index<index>, gradients, this->options_.leaves == 0});
        b.is_packed = std::get<index>(all.back()).is_packed();
      });
    return all;
  }

  void pack(std::size_t b) {
    detail::train::on([&](auto& one) { this->round_groups(b, one.gradients), one.pack(); }, packed_[b]);
  }
  request<wire_type> start(std::size_t b) {
    return detail::train::on(
        [&](auto& one) {
          if (!one.is_packed()) return start_allreduce(this->comm_, one.gradients, this->op_, this->algorithm_);
          const std::span packed{one.packed};
          return start_allreduce(this->comm_, packed, this->op_, this->algorithm_);
        },
        packed_[b]);
  }
  void arrived(std::size_t b, double factor) {
    detail::train::on(
        [&](auto& one) {
          one.unpack();
          if (factor != 1) detail::train::scale(one.gradients, factor);
        },
        packed_[b]);
  }
  void arrived_by_leaves(std::size_t b, leaf_sums& sums) {
    sums.combine_block();
    if (b < this->gathered_.size()) this->gathered_[b].restart();
    else this->gathered_.push_back(sums.start_gather(this->comm_));
  }
  void update() {
    detail::train::each_parameter(this->parameters_, [this](std::size_t i, auto& p) {
      if (this->has_data_ || !detail::train::is_local(p)) this->inner_.step(i, p.value, p.gradient);
    });
  }

  std::vector<packed_gradients> packed_ = make_packed();
};

template <class Comm, class Optimizer, class Range>
distributed_optimizer(Comm&, Optimizer, Range&&, const optimizer_options& = {})
    -> distributed_optimizer<Comm, Optimizer, Range>;
template <class Comm, class Optimizer, class Range, detail::collective::AnyAlgorithm A>
distributed_optimizer(Comm&, Optimizer, Range&&, A, const optimizer_options& = {})
    -> distributed_optimizer<Comm, Optimizer, Range, A>;
template <class Comm, class Optimizer, class Range, AnyOperator Op>
distributed_optimizer(Comm&, Optimizer, Range&&, Op, const optimizer_options& = {})
    -> distributed_optimizer<Comm, Optimizer, Range, automatic, Op>;
template <class Comm, class Optimizer, class Range, AnyOperator Op, detail::collective::AnyAlgorithm A>
distributed_optimizer(Comm&, Optimizer, Range&&, Op, A, const optimizer_options& = {})
    -> distributed_optimizer<Comm, Optimizer, Range, A, Op>;

}  // namespace kolo::inline KOLO_ABI
