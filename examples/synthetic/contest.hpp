// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interleaves the steps of several variants of the exchange on the same tensors, so that other load of the machine affects all of them equally.
#pragma once

#include "outcome.hpp"
#include "trainer.hpp"

#include <kolo/collective/barrier.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace synthetic {

/// The parameters of a step: seconds of computation, learning rate, and write(i), which writes gradient i.
struct task {
  double seconds;
  float rate;
  std::function<void(std::size_t)> write;
};

struct rival {
  std::function<parts(const task&)> step;
  entry result;
};

/// A hash of the bits of all values.
inline std::uint64_t digest_of(std::span<const float> values) {
  std::uint64_t h = values.size();
  for (const float x : values) h = (h ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3u;
  return h;
}

template <class Comm>
class contest {
 public:
  contest(Comm& comm, const settings& s)
      : comm_{comm},
        settings_{s},
        model_{tensors_of(s.model, s.shrink), kolo::shm::allocator<float>{comm}},
        busy_{comm, 1e-6 * s.progress_us} {}

  template <class Algorithm>
  void add(const way& w, Algorithm algorithm) {
    auto t = std::make_shared<trainer<Comm, Algorithm>>(comm_, std::move(algorithm), settings_, w, model_, busy_);
    const std::size_t buckets = t->buckets().buckets.size();
    rivals_.push_back({[t](const task& what) { return t->step(what.seconds, what.rate, what.write); },
                       entry{.how = w, .buckets = buckets}});
  }
  void add(rival r) { rivals_.push_back(std::move(r)); }

  tensors& model() { return model_; }
  load<Comm>& busy() { return busy_; }

  /// Collective. Results are the same on every rank, except compute, update and hidden, which are this rank's.
  std::vector<entry> run() {
    for (rival& r : rivals_) compare_bits(r);
    if (settings_.compute_exchanges > 0) seconds_ = settings_.compute_exchanges * seconds_of_an_exchange();
    const int steps = settings_.steps;
    for (int step = 0; step < steps; ++step)
      for (std::size_t k = 0; k < rivals_.size(); ++k)
        take_step(rivals_[(k + std::size_t(step)) % rivals_.size()], step == steps - 1);
    std::vector<entry> all;
    for (rival& r : rivals_) {
      kolo::allreduce(comm_, r.result.seconds, kolo::max);
      kolo::allreduce(comm_, std::span{&r.result.wrong, 1}, kolo::sum);
      all.push_back(r.result);
    }
    return all;
  }

  double seconds() const { return seconds_; }  ///< of computation per step

 private:
  /// One step from zeros, with gradients whose sums depend on the order of additions. Not part of any mean.
  void compare_bits(rival& r) {
    std::fill(model_.values().begin(), model_.values().end(), 0.0f);
    r.step({0, 1.0f, [&](std::size_t i) { model_.write_noise(i, comm_.rank()); }});
    std::uint64_t all[] = {digest_of(model_.values()), 0};
    r.result.digest = all[0];
    all[1] = ~all[0];
    kolo::allreduce(comm_, all, kolo::max);
    r.result.is_same_everywhere = all[0] == ~all[1];
  }

  /// Of the first variant, on its slowest rank.
  double seconds_of_an_exchange() {
    std::vector<double> taken;
    for (int i = 0; i < 3; ++i) {
      kolo::barrier(comm_);
      const parts p = rivals_.front().step(plain(0));
      taken.push_back(p.step - p.update);
    }
    kolo::allreduce(comm_, taken, kolo::max);
    return median_of(taken);
  }

  void take_step(rival& r, bool is_last) {
    kolo::barrier(comm_);
    const parts p = r.step(plain(seconds_));
    const double steps = settings_.steps;
    r.result.seconds.push_back(p.step);
    r.result.compute += p.compute / steps, r.result.update += p.update / steps, r.result.hidden += p.hidden / steps;
    if (is_last) r.result.wrong = count_wrong(model_.parameters(), comm_.size());
  }

  task plain(double seconds) {
    return {seconds, 1e-3f, [&](std::size_t i) { model_.write(i, comm_.rank()); }};
  }

  Comm& comm_;
  const settings& settings_;
  tensors model_;
  load<Comm> busy_;
  double seconds_ = 1e-3 * settings_.compute_ms;
  std::vector<rival> rivals_{};
};

}  // namespace synthetic
