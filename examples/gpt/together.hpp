// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Combines several kinds of parallelism: each has communicators of its own, split off the one of all ranks.
#pragma once

#include "pipeline.hpp"
#include "ring_attention.hpp"
#include "tensor_parallel.hpp"
#include "training.hpp"

#include <kolo/observe/counted.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gpt {

/// A communicator of one kind of parallelism; counts this rank's calls and the bytes that it sends.
struct ranks {
  using communicator = kolo::communicator<kolo::counted<kolo::shm::transport>>;
  communicator comm;
  std::size_t calls = 0;

  communicator& call() { return ++calls, comm; }
};

/// All ranks as a grid, data x pipeline x ring x tensor, where the last index varies fastest; and this rank's lines of it.
struct grid {
  ranks::communicator all;
  ranks tensor, ring, pipeline;
  ranks replicas;  // data x ring: ranks with the same parameters and different tokens

  grid(kolo::shm::transport& whole, const settings& s)
      : all{std::move(whole)},
        tensor{along(1, s.tensor)},
        ring{along(s.tensor, s.ring)},
        pipeline{along(s.tensor * s.ring, s.pipeline)},
        replicas{all.split(pipeline.comm.rank() * s.tensor + tensor.comm.rank(), all.rank())} {}

 private:
  /// This rank's line of `count` ranks with distance `stride`.
  ranks::communicator along(int stride, int count) {
    return all.split(all.rank() - all.rank() / stride % count * stride, all.rank());
  }
};

/// This rank's part of the model.
inline share<float> share_of(grid& g) {
  share<float> mine;
  share_matrices(mine, g.tensor);
  mine.layers = {g.pipeline.comm.rank(), g.pipeline.comm.size()};
  mine.places = {g.ring.comm.rank(), g.ring.comm.size()};
  if (g.ring.comm.size() > 1)
    mine.attend = [&ring = g.ring] { return std::make_unique<ring_attention<float, ranks>>(ring); };
  return mine;
}

/// Calls and bytes of rank 0 per step, for replicas, tensor, pipeline and ring. The allreduce of the loss is not counted.
struct sent {
  double calls = 0, bytes = 0;
};
inline constexpr std::size_t ways = 4;

/// Gives the results of `train` on one process, up to rounding. Rank 0 fills `by_way`, and `curve` with the loss of every step.
template <class Comm>
void train_together(Comm& comm, const settings& s, std::span<const int> text, outcome& out, std::span<double> curve,
                    std::span<sent> by_way) {
  grid g{comm.transport(), s};
  model<float> m{s.model, s.seed, {}, share_of(g)};
  auto parameters = m.parameters();
  const kolo::replicated<kolo::update::adamw> everything{rule_for(s)};
  kolo::distributed_optimizer optimizer{
      g.replicas.comm, everything, parameters, {.bucket_bytes = s.bucket_bytes, .passes = s.micro}};

  const auto rate = rates(s, curve.size());
  const auto learned = learned_of(text);
  const auto places = std::size_t(s.model.places), of_micro = std::size_t(s.batch / s.data / s.micro);
  const auto replica = std::size_t(g.replicas.comm.rank() / s.ring);
  const part of_sequence{g.ring.comm.rank(), s.ring};
  std::vector<batch> micro{std::size_t(s.micro)};
  const std::array on{&g.replicas, &g.tensor, &g.pipeline, &g.ring};
  for (ranks* r : on) r->comm.transport().forget();  // resets the counts
  kolo::barrier(g.all);
  const double since = digits::now(g.all);
  for (std::size_t step = 0; step < curve.size(); ++step) {
    optimizer.inner().rule.rate = double(rate(int(step)));
    for (std::size_t i = 0; i < micro.size(); ++i)
      micro[i] = part_of(batch_of(learned, places, s.seed, step, of_micro * (replica * micro.size() + i), of_micro),
                         places, of_sequence);
    double loss[1] = {pipeline_step(
        g.pipeline, m, micro, [&](std::size_t i) { optimizer.ready(i); }, [&] { optimizer.step(); })};
    g.replicas.calls += optimizer.buckets().buckets.size();
    // Every replica has the mean losses of its micro-batches, on all ranks of its last stage.
    kolo::allreduce(g.all, loss, kolo::sum);
    if (g.all.rank() == 0) curve[step] = loss[0] / double(micro.size()) / (s.data * s.ring * s.tensor);
  }
  if (g.all.rank() != 0) return;
  out.seconds = digits::now(g.all) - since;
  for (const auto& p : parameters) out.parameters += p.value.size();
  for (std::size_t w = 0; w < ways; ++w)
    by_way[w] = {double(on[w]->calls) / s.steps, double(on[w]->comm.transport().total().bytes_sent) / s.steps};
}

}  // namespace gpt
