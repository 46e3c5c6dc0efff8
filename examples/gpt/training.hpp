// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training loop of one rank, with a replicated or a sharded optimizer.
#pragma once

#include "../digits/stopwatch.hpp"
#include "model.hpp"
#include "settings.hpp"
#include "text.hpp"

#include <kolo/collective/barrier.hpp>
#include <kolo/train/learning_rate.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/sharded.hpp>
#include <kolo/train/sharded_parameters.hpp>
#include <kolo/train/state.hpp>
#include <kolo/train/update.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gpt {

/// The results on rank 0.
struct outcome {
  double held_out = 0;  ///< loss on the held-out text
  double seconds = 0;   ///< of all steps
  double hidden = 0;    ///< fraction of the last exchange that overlapped with computation
  std::size_t parameters = 0;
  std::size_t state_bytes = 0;  ///< of the optimizer, on this rank
  std::uint64_t digest = 0;     ///< of the bits of all parameters
  char sample[1024] = {};
};

/// Epsilon exceeds the rounding errors of gradients that should be zero: Adam would amplify larger values to full steps,
/// and trainings that round differently would diverge.
inline kolo::update::adamw rule_for(const settings& s) { return {.rate = s.rate, .epsilon = 1e-6}; }

/// The two optimizers. Both combine the gradients of leaves by the same tree, so they give the same bits.
template <class Comm>
auto make_sharded(Comm& comm, std::vector<parameter<float>>& parameters, const settings& s) {
  return kolo::sharded_optimizer{comm, rule_for(s), parameters, {.bucket_bytes = s.bucket_bytes, .leaves = s.leaves}};
}
template <class Comm>
auto make_replicated(Comm& comm, std::vector<parameter<float>>& parameters, const settings& s) {
  const kolo::replicated<kolo::update::adamw> everything{rule_for(s)};
  return kolo::distributed_optimizer{
      comm, everything, parameters, {.bucket_bytes = s.bucket_bytes, .leaves = s.leaves}};
}

/// The rule whose rate is set before each step.
auto& rule_of(auto& optimizer) {
  if constexpr (requires { optimizer.inner().rule; }) return optimizer.inner().rule;
  else return optimizer.inner();
}

/// A hash of the bits of all parameters (FNV-1a).
inline std::uint64_t digest_of(std::span<const parameter<float>> parameters) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const auto& p : parameters)
    for (const std::byte b : std::as_bytes(p.value)) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return h;
}

/// The learning rate of each step: a warm-up for a tenth of the steps, then a linear decay to a tenth.
inline auto rates(const settings& s, std::size_t steps) {
  const int warm = int(steps / 10);
  return kolo::warm_up{float(s.rate) / 10, warm,
                       kolo::polynomial_decay{float(s.rate), float(s.rate) / 10, int(steps) - warm, 1}};
}
/// The training text: all but the last tenth.
inline std::span<const int> learned_of(std::span<const int> text) { return text.first(text.size() - text.size() / 10); }

/// The mean loss over `sequences` sequences of the text.
inline double loss_on(model<float>& m, std::span<const int> text, std::size_t sequences) {
  const batch b = batch_of(text, std::size_t(m.dimensions().places), 7, 0, 0, sequences);
  return m.loss(b.tokens, b.targets);
}

/// Generates text after a newline; draws each character by the model's probabilities, with temperature 0.7.
inline void write_sample(model<float>& m, digits::random_numbers random, std::span<char> to) {
  std::vector<int> tokens{number_of('\n')};
  const std::size_t places = std::size_t(m.dimensions().places);
  for (char& c : to) {
    const std::span<const int> context = std::span{tokens}.last(std::min(tokens.size(), places));
    const matrix<float> guess = m.logits(context);
    Eigen::VectorXf likely = guess.col(guess.cols() - 1);
    likely = ((likely.array() - likely.maxCoeff()) / 0.7f).exp().matrix().eval();
    float left = random.uniform(0, likely.sum());
    int next = 0;
    while (next + 1 < likely.size() && (left -= likely[next]) > 0) ++next;
    tokens.push_back(next);
    c = character(next);
  }
}

/// Trains on all but the last tenth of `text` with all ranks of `comm`. Rank 0 fills `out`, and `curve` with the loss of every step.
template <class Comm, class Make>
void train(Comm& comm, Make make, const settings& s, std::span<const int> text, outcome& out, std::span<double> curve) {
  // Initial weights differ between ranks until the broadcast.
  model<float> m{s.model, s.seed + std::uint64_t(comm.rank()), kolo::shm::allocator<float>{comm}};
  auto parameters = m.parameters();
  kolo::broadcast_parameters(comm, parameters);
  auto optimizer = make(comm, parameters, s);
  const kolo::leaves leaves{s.leaves};
  const auto own = leaves.of(comm.rank(), comm.size());
  const auto of_leaf = std::size_t(s.batch / s.leaves), places = std::size_t(s.model.places);
  const auto rate = rates(s, curve.size());
  const auto learned = learned_of(text);
  kolo::barrier(comm);
  const double since = digits::now(comm);
  for (std::size_t step = 0; step < curve.size(); ++step) {
    std::vector<double> losses;
    rule_of(optimizer).rate = double(rate(int(step)));
    for (std::size_t leaf = own.first; leaf < own.first + own.count; ++leaf) {
      const batch b = batch_of(learned, places, s.seed, step, of_leaf * leaf, of_leaf);
      losses.push_back(m.backward(b.tokens, b.targets, [&](std::size_t i) { optimizer.ready(i); }));
      optimizer.step();
    }
    const double loss = kolo::average_metrics(comm, losses, leaves)[0];
    if (comm.rank() == 0) curve[step] = loss;
  }
  if (comm.rank() != 0) return;
  out.seconds = digits::now(comm) - since;
  out.hidden = optimizer.overlap().hidden();
  for (const auto& p : parameters) out.parameters += p.value.size();
  if constexpr (requires { optimizer.state_bytes(); }) out.state_bytes = optimizer.state_bytes();
  else out.state_bytes = out.parameters * kolo::update::adamw::states * sizeof(float);
  out.digest = digest_of(parameters);
  out.held_out = loss_on(m, text.last(text.size() / 10), 64);
  write_sample(m, digits::random_numbers{s.seed}, std::span{out.sample}.first(std::size_t(s.sample)));
}

/// The same training with 1/p of values, gradients and state on each rank (ZeRO-3). Each rank computes its part of a
/// batch in one pass, so losses equal those of one process up to rounding.
template <class Comm>
void train_shards(Comm& comm, const settings& s, std::span<const int> text, outcome& out, std::span<double> curve) {
  model<float> m{s.model, s.seed};
  std::vector<kolo::sharded_tensor<float>> tensors;
  const auto start = m.parameters();
  for (const auto& p : start) tensors.emplace_back(p.value.size()), out.parameters += p.value.size();
  const auto first = m.groups();
  std::vector<std::vector<kolo::sharded_tensor<float>*>> groups(first.size() - 1);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = first[g]; i < first[g + 1]; ++i) groups[g].push_back(&tensors[i]);
  kolo::sharded_parameters shards{comm, rule_for(s), groups};
  shards.initialise([&](std::size_t g) {
    for (std::size_t i = first[g]; i < first[g + 1]; ++i)
      std::copy(start[i].value.begin(), start[i].value.end(), tensors[i].value().begin());
  });
  using used = typename decltype(shards)::used;
  m.lend(tensors, [&](std::size_t g, bool with_gradients) {
    return std::make_shared<used>(with_gradients ? shards.use_with_gradients(g) : shards.use(g));
  });
  const auto of_rank = std::size_t(s.batch / s.ranks), places = std::size_t(s.model.places);
  const auto rate = rates(s, curve.size());
  const auto learned = learned_of(text);
  kolo::barrier(comm);
  const double since = digits::now(comm);
  for (std::size_t step = 0; step < curve.size(); ++step) {
    shards.inner().rate = double(rate(int(step)));
    const batch b = batch_of(learned, places, s.seed, step, of_rank * std::size_t(comm.rank()), of_rank);
    std::vector<double> loss{m.backward(b.tokens, b.targets, [](std::size_t) {})};
    shards.step();
    kolo::allreduce(comm, loss, kolo::average);
    if (comm.rank() == 0) curve[step] = loss[0];
  }
  out.seconds = digits::now(comm) - since;
  out.state_bytes = shards.bytes();
  out.held_out = loss_on(m, text.last(text.size() / 10), 64);  // collective: gathers parameters
  write_sample(m, digits::random_numbers{s.seed}, std::span{out.sample}.first(std::size_t(s.sample)));
}

}  // namespace gpt
