// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An optimizer whose every step uses the gradients averaged over all ranks: wrap the one that a plain training loop
// has.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/gradient_exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::train {

/// Gradients of a bucket: where they lie, and, if runs are so short that this is faster, as they travel.
///
/// Measured on two cores over shared memory and MPICH, 2 and 4 ranks, time of packed against view: 1000 tensors of 4
/// to 64 bytes 0.3 to 0.8, of 64 to 1024 bytes (544 on average) 0.5 to 0.95; 300 of 1 KiB each 1.1 to 1.3; 100 of 4
/// to 32 KiB 1.1 to 1.9 over shared memory.
template <class T>
struct packed_bucket {
  static constexpr std::size_t long_run_bytes = 640;

  packed_bucket(bucket<T> of, bool may_pack) : gradients{std::move(of)} {
    if (!may_pack) return;
    std::size_t runs = 0;
    for_runs(gradients, [&](auto) { ++runs; });
    if (runs > 1 && gradients.size() * sizeof(T) / runs < long_run_bytes) packed.resize(gradients.size());
  }
  bool is_packed() const { return !packed.empty(); }
  void pack() {
    T* to = packed.data();
    if (is_packed()) for_runs(gradients, [&](auto run) { to = std::copy(run.begin(), run.end(), to); });
  }
  void unpack() {
    const T* from = packed.data();
    if (is_packed())
      for_runs(gradients, [&](auto run) { std::copy_n(from, run.size(), run.begin()), from += run.size(); });
  }

  bucket<T> gradients;
  std::vector<T> packed{};
};

}  // namespace detail::train

/// distributed_optimizer optimizer{comm, inner, parameters [, op] [, algorithm] [, options]};
///
/// Op is `average`, unless said otherwise: `sum`, `wire<bfloat16>(average)`, `predivide(average, 8)`... Gradients are
/// exchanged where they lie, in buckets (train/buckets.hpp), without a copy but where they are many and tiny, and
/// without an allocation after the first step (but for those with `.rows`). Ranks that begin with equal parameters keep
/// equal parameters, bit for bit; buckets, and with them the last bits, may be others on another transport, unless
/// `bucket_bytes` is said.
///
///     backward(model, batch);  // or while it runs: optimizer.ready(i) as soon as gradient i is complete
///     optimizer.step();        // or: optimizer.synchronize(); clip_by_global_norm(parameters, 1.0); optimizer.step();
///
/// | member | what it does |
/// |---|---|
/// | `bool step()` | exchanges what is not exchanged, and updates; false: more passes are to come |
/// | `void ready(std::size_t i)` | gradient i is complete: its bucket is exchanged when all of it is |
/// | `void progress()` | carries on what was started; never waits |
/// | `void synchronize()` | waits until all gradients are exchanged, and updates nothing |
/// | `void skip_step()` | after synchronize, in place of step, on all ranks: updates nothing |
/// | `std::size_t join()` | this rank has no more data: takes part until the others have none; returns these steps |
/// | `leaves()`, `void leaf(int)` | with options.leaves: this rank's; what comes after each, and then one step() |
/// | `void zero_gradients()` | not between a backward pass and its step |
/// | `Optimizer& inner()` | the wrapped optimizer, to set its learning rate, say |
/// | `const bucket_plan& buckets()` | what is exchanged together; can be printed |
/// | `const overlap_report& overlap()` | how much of the last exchange was hidden |
///
/// Before: all ranks construct it together, for parameters of the same number, order and sizes; communicator and
/// tensors outlive it and stay in their places. Several on one communicator take their steps in one order. `Range` is a
/// reference when the parameters outlive it, and otherwise the parameters themselves. With `passes` = k, step() is
/// called after each backward pass, the gradients add up in place (nobody zeroes them), and every k-th call exchanges
/// and updates; where op divides, it is their mean. Between the first `ready` of an exchange and its end the
/// communicator is the optimizer's. Errors: `mismatch` where ranks plan different buckets, step different
/// optimizers, or skip a step alone; `invalid_argument`, on the others `mismatch`, for what is refused when it is made:
/// parameters that share elements, a gradient that is longer or shorter than its value, options that make no sense;
/// `invalid_argument`, on the others `peer_failed`, for `ready` twice, `step` while some gradient is not ready,
/// gradients zeroed between `ready` or `synchronize` and the step, a parameter that has changed its shape, place or
/// kind (`.local`, `.rows`); those of `kolo::allreduce`. What the wrapped optimizer throws comes out of step(), which
/// is over then: what it has updated before stays updated.
template <class Comm, class Optimizer, class Range, class Algorithm = automatic, class Op = average_t>
  requires detail::core::own_header::includes_kolo_train_hpp<Comm>
class distributed_optimizer
    : public detail::train::gradient_exchange<distributed_optimizer<Comm, Optimizer, Range, Algorithm, Op>,
                                              kind::allreduce, Comm, Optimizer, Range, Algorithm, Op> {
  static_assert(OptimizerFor<Optimizer, Range>, "kolo: an optimizer has step(index, value, gradient)");
  using base =
      detail::train::gradient_exchange<distributed_optimizer, kind::allreduce, Comm, Optimizer, Range, Algorithm, Op>;
  using packed_gradients = detail::train::per_element<detail::train::packed_bucket, Range>;

 public:
  using base::base;
  ~distributed_optimizer() { this->queue_.end(); }

 private:
  friend base;

  std::vector<packed_gradients> make_packed() {
    std::vector<packed_gradients> all;
    for (auto& b : this->plan_.buckets)
      this->local_.with_tensors(b.range, b.parameters, [&](auto index, const auto&, const auto& gradients) {
        all.push_back(packed_gradients{std::in_place_index<index>, gradients, this->options_.leaves == 0});
        b.is_packed = std::get<index>(all.back()).is_packed();
      });
    return all;
  }

  void pack(std::size_t b) {
    std::visit([&](auto& one) { this->local_.prepare_groups(b, one.gradients), one.pack(); }, packed_[b]);
  }
  request<typename Comm::transport_type> start(std::size_t b) {
    return std::visit(
        [&](auto& one) {
          if (!one.is_packed()) return start_allreduce(this->comm_, one.gradients, this->local_.op(), this->algorithm_);
          const std::span packed{one.packed};
          return start_allreduce(this->comm_, packed, this->local_.op(), this->algorithm_);
        },
        packed_[b]);
  }
  void arrived(std::size_t b, double factor) {
    std::visit(
        [&](auto& one) {
          one.unpack();
          if (factor != 1) detail::train::scale(one.gradients, factor);
        },
        packed_[b]);
  }
  void arrived_by_leaves(std::size_t b, auto& sums) {
    sums.combine_block();
    if (b < this->gathered_.size()) this->gathered_[b].restart();
    else this->gathered_.push_back(sums.start_gather(this->comm_));
  }
  void begin_step() {}
  void update_early(std::size_t) {}
  void update() {
    detail::train::each_parameter(this->parameters_, [this](std::size_t i, auto& p) {
      if (this->has_data_ || !detail::train::is_local(p)) this->inner_.step(i, p.value, p.gradient);
    });
  }

  void drop() {}

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
