// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several ways to share a training at once: each has communicators of its own, split off the one of all ranks.
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

/// Some ranks that share something, and what this one does there: calls, and bytes that it really sends.
struct ranks {
  using communicator = kolo::communicator<kolo::counted<kolo::shm::transport>>;
  communicator comm;
  std::size_t calls = 0;

  communicator& call() { return ++calls, comm; }
};

/// All ranks as a grid, data x pipeline x ring x tensor, the last of which are neighbours; and those lines of it on which this rank is.
struct grid {
  ranks::communicator all;
  ranks tensor, ring, pipeline;
  ranks replicas;  // data x ring: they have the same parameters, and learn from other tokens

  grid(kolo::shm::transport& whole, const settings& s)
      : all{std::move(whole)},
        tensor{along(1, s.tensor)},
        ring{along(s.tensor, s.ring)},
        pipeline{along(s.tensor * s.ring, s.pipeline)},
        replicas{all.split(pipeline.comm.rank() * s.tensor + tensor.comm.rank(), all.rank())} {}

 private:
  /// The `count` ranks that are `stride` apart.
  ranks::communicator along(int stride, int count) {
    return all.split(all.rank() - all.rank() / stride % count * stride, all.rank());
  }
};

/// What a rank of the grid has of the model.
inline share<float> share_of(grid& g) {
  share<float> mine;
  share_matrices(mine, g.tensor);
  mine.layers = {g.pipeline.comm.rank(), g.pipeline.comm.size()};
  mine.places = {g.ring.comm.rank(), g.ring.comm.size()};
  if (g.ring.comm.size() > 1)
    mine.attend = [&ring = g.ring] { return std::make_unique<ring_attention<float, ranks>>(ring); };
  return mine;
}

/// What rank 0 has done in a step for the replicas, of tensor, pipeline and ring; the loss, which ranks sum as well, is not counted.
struct sent {
  double calls = 0, bytes = 0;
};
inline constexpr std::size_t ways = 4;

/// Trains as `train` does in one process. Rank 0 fills `curve` with the loss of every step, and `by_way`.
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
  for (ranks* r : on) r->comm.transport().forget();  // what has been sent so far
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
    kolo::allreduce(g.all, loss,
                    kolo::sum);  // every replica has a mean of each micro-batch, on all ranks of its last stage
    if (g.all.rank() == 0) curve[step] = loss[0] / double(micro.size()) / (s.data * s.ring * s.tensor);
  }
  if (g.all.rank() != 0) return;
  out.seconds = digits::now(g.all) - since;
  for (const auto& p : parameters) out.parameters += p.value.size();
  for (std::size_t w = 0; w < ways; ++w)
    by_way[w] = {double(on[w]->calls) / s.steps, double(on[w]->comm.transport().total().bytes_sent) / s.steps};
}

}  // namespace gpt
