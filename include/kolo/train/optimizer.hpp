// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An optimizer whose every step uses the gradients averaged over all ranks: wrap the one that a plain training loop has.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/core/error.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/view/bucket.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

namespace kolo::inline v0 {

/// All gradients are one bucket, averaged where they lie by one planned allreduce: one operation per step, no copy, and no
/// allocation after the first step. Ranks that begin with equal parameters keep equal parameters, bit for bit.
///
/// Before: all ranks construct it together, for parameters of the same number, order and sizes; communicator and tensors outlive
/// it and stay in their places. `Range` is a reference when the parameters outlive it, and otherwise the parameters themselves.
/// Errors: `invalid_argument` for a gradient that is longer or shorter than its value; those of `kolo::allreduce`.
template <class Comm, class Optimizer, class Range, class Algorithm = automatic>
class distributed_optimizer {
  static_assert(Parameters<Range>, "kolo: parameters are a range of items with .value and .gradient, of one element type");
  static_assert(OptimizerFor<Optimizer, Range>, "kolo: an optimizer has step(index, value, gradient)");

  using gradients = decltype(bucket{gradients_of(std::declval<Range&>())});
  using exchange =
      decltype(plan_allreduce(std::declval<Comm&>(), std::declval<gradients&>(), average, std::declval<Algorithm>()));

 public:
  distributed_optimizer(Comm& comm, Optimizer inner, Range&& parameters, Algorithm algorithm = {})
      : inner_{std::move(inner)},
        parameters_{std::forward<Range>(parameters)},
        gradients_{checked_gradients(parameters_)},
        exchange_{plan_allreduce(comm, gradients_, average, std::move(algorithm))} {}
  distributed_optimizer(const distributed_optimizer&) = delete;
  distributed_optimizer& operator=(const distributed_optimizer&) = delete;

  /// Averages the gradients and updates nothing: for what must happen between the two, such as clipping.
  void synchronize() {
    exchange_.run();
    synchronized_ = true;
  }

  /// Averages the gradients, unless `synchronize` has just done so, and lets the inner optimizer update every parameter.
  void step() {
    if (!synchronized_) exchange_.run();
    synchronized_ = false;
    std::size_t index = 0;
    for (auto&& p : parameters_) inner_.step(index++, p.value, p.gradient);
  }

  /// The wrapped one: to set its learning rate, say.
  Optimizer& inner() { return inner_; }

 private:
  static gradients checked_gradients(std::remove_reference_t<Range>& parameters) {
    const auto of_values = values_of(parameters);
    const auto of_gradients = gradients_of(parameters);
    for (std::size_t i = 0; i < of_values.size(); ++i) {
      const std::size_t n = of_values[i].size(), m = of_gradients[i].size();
      if (n != m)
        throw error{errc::invalid_argument, "parameter " + std::to_string(i) + " has " + std::to_string(n) +
                                                " values, but a gradient of " + std::to_string(m)};
    }
    return bucket{of_gradients};
  }

  Optimizer inner_;
  Range parameters_;
  gradients gradients_;
  exchange exchange_;
  bool synchronized_ = false;
};

template <class Comm, class Optimizer, class Range, class Algorithm = automatic>
distributed_optimizer(Comm&, Optimizer, Range&&, Algorithm = {}) -> distributed_optimizer<Comm, Optimizer, Range, Algorithm>;

}  // namespace kolo::inline v0
