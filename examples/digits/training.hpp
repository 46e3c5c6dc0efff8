// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training loop of one rank.
#pragma once

#include "journal.hpp"
#include "judging.hpp"
#include "network.hpp"
#include "outcome.hpp"
#include "settings.hpp"
#include "stopwatch.hpp"

#include <kolo/collective/barrier.hpp>
#include <kolo/train/checkpoint.hpp>
#include <kolo/train/data.hpp>
#include <kolo/train/learning_rate.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/outer_optimizer.hpp>
#include <kolo/train/root.hpp>
#include <kolo/train/state.hpp>
#include <kolo/train/update.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

namespace digits {

/// A learning rate proportional to the batch of all ranks: a warm-up, then a decay to almost 0.
inline auto learning_rate(std::size_t batch_of_rank, int ranks, std::size_t steps) {
  const float alone = 0.1f / 120 * float(batch_of_rank);
  const float peak = std::min(alone * float(ranks), 0.8f);  // a larger batch permits no larger rate
  const int warm = int(steps / 10), rest = int(steps) - warm;
  return kolo::warm_up{peak / 10, warm, kolo::polynomial_decay{peak, 1e-5f, rest}};
}

/// A hash of the bits of all parameters (FNV-1a).
inline std::uint64_t digest_of(network& model) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const auto& p : model.parameters())
    for (const std::byte b : std::as_bytes(std::span{p.value}))
      h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return h;
}

/// Writes a checkpoint if one was requested. If that fails, the training continues.
inline void save(network& model, const settings& s, outcome& out) {
  if (s.checkpoint.empty()) return;
  out.unsaved[0] = '\0';
  try {
    kolo::save_checkpoint(s.checkpoint, model.parameters());
  } catch (const kolo::error& e) {
    std::snprintf(out.unsaved, sizeof out.unsaved, "%s", e.what());
  }
}

using momentum = kolo::replicated<kolo::update::momentum>;

/// Local steps with an outer step every s.outer steps; has the members of a distributed_optimizer that `learn` calls.
template <class Comm, class Algorithm>
class local_optimizer {
  using parameters = decltype(std::declval<network&>().parameters());

 public:
  local_optimizer(Comm& comm, momentum inner, network& model, Algorithm algorithm, const settings& s)
      : inner_{std::move(inner)},
        parameters_{model.parameters()},
        outer_{comm,
               kolo::update::nesterov{.rate = 0.7, .momentum = 0.9},
               parameters_,
               algorithm,
               {.every = s.outer, .fragments = s.fragments, .delay = s.delay}} {}

  void synchronize() {}
  void step() {
    std::size_t i = 0;
    for (const auto& p : parameters_) inner_.step(i++, p.value, p.gradient);
  }
  void exchange() { outer_.step(); }
  void finish() { outer_.finish(); }
  momentum& inner() { return inner_; }

 private:
  momentum inner_;
  parameters parameters_;
  kolo::outer_optimizer<Comm, kolo::update::nesterov, parameters&, Algorithm> outer_;
};

/// Trains for all epochs with this optimizer. Rank 0 fills `out`, and `curve` with the loss of every step.
template <class Comm, class Optimizer>
void learn(Comm& comm, Optimizer& optimizer, network& model, const settings& s, const split& data, outcome& out,
           std::span<double> curve) {
  constexpr bool is_local = requires { optimizer.exchange(); };
  const int parts = s.parts(comm.size());
  const std::size_t batch_of_part = std::size_t(s.batch / parts);
  const auto rate = learning_rate(batch_of_part, parts, curve.size());  // the same for local steps
  auto& rule = optimizer.inner().rule;

  kolo::barrier(comm);
  durations seconds;
  stopwatch watch{comm};
  journal losses{comm, s, curve};
  // This rank's losses in a step, one for each of its leaves, and how many are computed.
  std::vector<double> of_leaves(kolo::leaves{parts}.of(comm.rank(), comm.size()).count);
  std::size_t learned = 0;
  int step = 0;
  for (int epoch = 0; epoch < s.epochs; ++epoch) {
    const batches shuffled{data.train, batch_of_part, s.seed + std::uint64_t(epoch)};
    for (const batch& b : kolo::shard(shuffled, comm, kolo::leaves{parts})) {
      of_leaves[learned++] = model.backward(b).loss;
      charge(comm, s.image_us * 1e-6 * double(batch_of_part));
      watch.lap(seconds.compute);
      if (learned < of_leaves.size()) {
        optimizer.step();
        watch.lap(seconds.update);
        continue;
      }
      learned = 0;
      const double loss = s.leaves > 0 ? kolo::average_metrics(comm, of_leaves, kolo::leaves{parts})[0] : of_leaves[0];
      optimizer.synchronize();
      watch.lap(seconds.communication);
      rule.rate = rate(step++);
      optimizer.step();
      watch.lap(seconds.update);
      if constexpr (is_local) optimizer.exchange();
      losses.enter(loss, rule, model);
      watch.lap(seconds.communication);
    }
    if constexpr (is_local)  // earlier epochs: each rank evaluates, and rank 0 saves, its own parameters
      if (epoch + 1 == s.epochs) optimizer.finish(), watch.lap(seconds.communication);
    const double judged = accuracy(comm, model, data.test);
    kolo::on_root(comm, [&] { out.accuracy = judged, save(model, s, out); });
    kolo::barrier(comm);
    watch.lap(seconds.judging);
  }
  double means[] = {seconds.compute, seconds.communication, seconds.update, seconds.judging};
  kolo::average_metrics(comm, means);
  kolo::on_root(comm, [&] { out.seconds = {means[0], means[1], means[2], means[3]}, out.digest = digest_of(model); });
}

/// Trains on `data` with all ranks of `comm`; results as for `learn`.
template <class Comm, class Algorithm>
void train(Comm& comm, Algorithm algorithm, const settings& s, const split& data, outcome& out,
           std::span<double> curve) {
  const kolo::shm::allocator<float> shared{comm};  // gradients there are averaged without a copy
  network model{s.widths(), s.seed + std::uint64_t(comm.rank()), shared};  // weights differ between ranks,
  kolo::broadcast_parameters(comm, model.parameters());                    // until here
  const momentum inner{{.weight_decay = 1e-4}};
  if (s.outer > 0) {
    local_optimizer optimizer{comm, inner, model, algorithm, s};
    learn(comm, optimizer, model, s, data, out, curve);
  } else {
    kolo::distributed_optimizer optimizer{comm, inner, model.parameters(), algorithm, {.leaves = s.leaves}};
    learn(comm, optimizer, model, s, data, out, curve);
  }
}

/// Collective: images/s of as many independent trainings at once as there are ranks, each on a part of the data: the
/// limit of this machine. 0 for one rank, and if the parts are too small to measure.
template <class Comm, class Algorithm>
double rate_apart(Comm& comm, Algorithm algorithm, settings s, const split& data) {
  const auto part = [&](const dataset& all) {
    return copy_of(slices{all, all.size() / std::size_t(comm.size())}[std::size_t(comm.rank())]);
  };
  s.epochs = 2, s.outer = 0, s.is_quiet = true, s.checkpoint.clear();
  const std::size_t steps = std::size_t(s.epochs) * (data.train.size() / std::size_t(comm.size() * s.batch));
  if (comm.size() == 1 || steps < 20 || data.test.size() < std::size_t(comm.size())) return 0;
  const split mine{part(data.train), part(data.test)};
  auto alone = comm.split(comm.rank(), 0);
  outcome out;
  std::vector<double> curve(steps);
  kolo::barrier(comm);
  train(alone, algorithm, s, mine, out, curve);
  double rate = double(steps * std::size_t(s.batch)) / out.seconds.total();
  kolo::allreduce(comm, std::span{&rate, 1}, kolo::sum);
  return rate;
}

}  // namespace digits
