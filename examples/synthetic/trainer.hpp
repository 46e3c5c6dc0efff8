// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training without a model on one rank, with one variant of the exchange: gradients are written, averaged and applied.
#pragma once

#include "../digits/stopwatch.hpp"
#include "outcome.hpp"
#include "training.hpp"
#include "way.hpp"

#include <kolo/collective/barrier.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/state.hpp>
#include <kolo/train/update.hpp>

#include <cstdio>
#include <stop_token>
#include <thread>

namespace synthetic {

/// The parts of a step in seconds.
struct parts {
  double compute = 0;  ///< processor time of this thread
  double step = 0, update = 0, hidden = 0;
};

/// Trains with one variant. Steps of several trainers on the same tensors may alternate.
template <class Comm, class Algorithm>
class trainer {
  using inner = kolo::replicated<kolo::update::sgd>;
  using optimizer = decltype(kolo::distributed_optimizer{std::declval<Comm&>(), std::declval<inner>(),
                                                         std::declval<std::vector<parameter>&>(),
                                                         std::declval<Algorithm>()});

 public:
  /// Collective. Communicator, settings and model must outlive the trainer.
  trainer(Comm& comm, Algorithm algorithm, const settings& s, const way& w, tensors& model, load<Comm>& busy)
      : comm_{comm},
        settings_{s},
        way_{w},
        model_{model},
        busy_{busy},
        helper_{w.when == moment::helper ? std::jthread{[this](std::stop_token stop) { exchange_.run(stop); }}
                                         : std::jthread{}},
        optimizer_{comm,
                   inner{{}},
                   model.parameters(),
                   std::move(algorithm),
                   {.bucket_bytes = cap_of(w, s), .helper = w.when == moment::helper ? &exchange_ : nullptr}} {}
  trainer(const trainer&) = delete;
  trainer& operator=(const trainer&) = delete;

  /// Computes for `seconds`; write(i) fills gradient i.
  template <class Write>
  parts step(double seconds, float rate, Write write) {
    const bool overlaps = way_.when != moment::after;
    const double begin = digits::now(comm_), used = processor_seconds();
    parts p;
    compute(
        settings_, seconds, model_.sizes, busy_, write,
        [&](std::size_t i) {
          if (overlaps) optimizer_.ready(i);
        },
        [&] {
          if (way_.when == moment::during) optimizer_.progress();
        });
    p.compute = digits::Simulated<Comm> ? seconds : processor_seconds() - used;
    optimizer_.synchronize();
    const double exchanged = digits::now(comm_);
    optimizer_.inner().rule.rate = rate;
    optimizer_.step();
    const double end = digits::now(comm_);
    p.step = end - begin, p.update = end - exchanged, p.hidden = optimizer_.overlap().hidden();
    return p;
  }

  const kolo::bucket_plan& buckets() const { return optimizer_.buckets(); }

 private:
  Comm& comm_;
  const settings& settings_;
  way way_;
  tensors& model_;
  load<Comm>& busy_;
  kolo::background exchange_{};
  std::jthread helper_;
  optimizer optimizer_;
};

/// Trains with all ranks of `comm`, which were started at time `since`. Rank 0 fills `out` and the `seconds` of every step.
template <class Comm, class Algorithm>
void train(Comm& comm, Algorithm algorithm, const settings& s, bool overlaps, double since, outcome& out,
           std::span<double> seconds) {
  tensors model{tensors_of(s.model, s.shrink), kolo::shm::allocator<float>{comm}};
  kolo::broadcast_parameters(comm, model.parameters());
  load busy{comm, 1e-6 * s.progress_us};
  trainer<Comm, Algorithm> mine{comm, algorithm, s, {.when = overlaps ? moment::during : moment::after}, model, busy};
  if (comm.rank() == 0 && overlaps == s.modes().front())
    std::printf("\n%s", mine.buckets().message().c_str()), std::fflush(stdout);
  kolo::barrier(comm);
  outcome all{.start_up = digits::now(comm) - since};
  const double later = double(seconds.size() - 1);
  const auto rate = learning_rate(comm.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const parts p = mine.step(1e-3 * s.compute_ms, rate(int(i)), [&](std::size_t t) { model.write(t, comm.rank()); });
    if (comm.rank() == 0) seconds[i] = p.step;
    if (i == 0) continue;
    all.compute += p.compute / later, all.update += p.update / later, all.hidden += p.hidden / later;
  }
  all.wrong = count_wrong(model.parameters(), comm.size());
  kolo::allreduce(comm, std::span{&all.wrong, 1}, kolo::sum);
  if (comm.rank() == 0) out = all;
}

}  // namespace synthetic
