// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipeline parallelism: each rank has some layers; micro-batches pass through the ranks, forward and backward.
#pragma once

#include "model.hpp"
#include "text.hpp"

#include <kolo/point_to_point.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace gpt {

/// One step, as "1F1B" of Narayanan et al., "Efficient large-scale language model training on GPU clusters using
/// Megatron-LM", SC 2021: a rank starts with as many forward passes as there are ranks after it, then alternates
/// forward and backward passes, which limits the activations that it keeps. Adds all gradients; calls done() after each
/// backward pass. Returns the sum of the losses on the last rank, 0 on others. Of (p - 1 + micro-batches) turns p - 1 are idle.
template <class T, class Ranks, class Ready, class Done>
double pipeline_step(Ranks& ranks, model<T>& m, const std::vector<batch>& micro, Ready ready, Done done) {
  auto& comm = ranks.comm;
  const int stage = comm.rank(), count = int(micro.size()), ahead = std::min(comm.size() - 1 - stage, count);
  const bool is_first = stage == 0, is_last = stage + 1 == comm.size();
  using request = decltype(kolo::start_send(comm, std::span<T>{}, 0));
  struct slot {
    typename model<T>::pass pass{};
    matrix<T> d{};
    std::optional<request> forth{}, back{};  // sends of x and of d; the destructor of a request waits
  };
  std::vector<slot> slots(std::size_t(ahead) + 1);
  const auto elements = [](matrix<T>& x) { return std::span{x.data(), std::size_t(x.size())}; };
  const auto receive = [&](matrix<T>& x, int number, int from) {
    x.resize(m.dimensions().width, Eigen::Index(micro[std::size_t(number)].tokens.size()));
    kolo::receive(ranks.call(), elements(x), from, number);
  };
  double loss = 0;

  const auto forward = [&](int number) {
    const batch& b = micro[std::size_t(number)];
    slot& s = slots[std::size_t(number) % slots.size()];
    s.back.reset();
    if (is_first) m.embed(b.tokens, s.pass);
    else receive(s.pass.x, number, stage - 1);
    m.blocks(s.pass);
    if (!is_last) return void(s.forth.emplace(kolo::start_send(ranks.call(), elements(s.pass.x), stage + 1, number)));
    s.d = m.head(s.pass);
    loss += cross_entropy(s.d, std::span{b.targets});
  };
  const auto backward = [&](int number) {
    slot& s = slots[std::size_t(number) % slots.size()];
    s.forth.reset();
    if (is_last) m.head_backward(s.pass, s.d, ready);
    else receive(s.d, number, stage + 1);
    m.blocks_backward(s.pass, s.d, ready);
    if (is_first) m.embed_backward(micro[std::size_t(number)].tokens, s.d, ready);
    else s.back.emplace(kolo::start_send(ranks.call(), elements(s.d), stage - 1, number));
    done();
  };

  m.zero_gradients();
  for (int i = 0; i < ahead; ++i) forward(i);
  for (int i = ahead; i < count; ++i) forward(i), backward(i - ahead);
  for (int i = count - ahead; i < count; ++i) backward(i);
  return loss;
}

}  // namespace gpt
