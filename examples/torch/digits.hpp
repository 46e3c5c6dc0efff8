// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Common to both programs: the digits of examples/digits as tensors, in shuffled batches, and the evaluation on the test set.
#pragma once

#include "../digits/generator.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// Arguments: [BATCH [EPOCHS [IMAGES]]]; BATCH: per process.
struct settings {
  std::int64_t batch = 64;
  int epochs = 3;
  std::size_t images = 6400;

  settings(int argc, char** argv) {
    if (argc > 1) batch = std::atoi(argv[1]);
    if (argc > 2) epochs = std::atoi(argv[2]);
    if (argc > 3) images = static_cast<std::size_t>(std::atoi(argv[3]));
  }
};

struct samples {
  torch::Tensor images, labels;  // (n, 1, 28, 28) from 0 to 1, (n)
};

inline samples tensors_of(const digits::dataset& data) {
  const auto n = static_cast<std::int64_t>(data.size());
  const auto bytes = [](const auto& from, at::IntArrayRef shape) {
    return torch::from_blob(const_cast<std::uint8_t*>(from.data()), shape, torch::kUInt8);
  };
  return {bytes(data.images, {n, 1, digits::side, digits::side}).to(torch::kFloat) / 255,
          bytes(data.labels, {n}).to(torch::kLong)};
}

/// The samples in batches of `count`, in an order that depends on the epoch alone.
inline std::vector<samples> batches(const samples& all, std::int64_t count, int epoch) {
  const auto order =
      torch::randperm(all.labels.size(0), at::detail::createCPUGenerator(static_cast<std::uint64_t>(epoch)));
  const auto images = all.images.index_select(0, order), labels = all.labels.index_select(0, order);
  std::vector<samples> parts;
  for (std::int64_t i = 0; (i + 1) * count <= labels.size(0); ++i)
    parts.push_back({images.narrow(0, i * count, count), labels.narrow(0, i * count, count)});
  return parts;
}

template <class Network>
void report(int epoch, Network& model, const samples& test) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  const auto scores = model.forward(test.images);
  const double loss = torch::cross_entropy_loss(scores, test.labels).template item<double>();
  const double right = scores.argmax(1).eq(test.labels).to(torch::kFloat).mean().template item<double>();
  std::printf("epoch %d: loss %.6f, %.2f %% accuracy on the test set\n", epoch, loss, 100 * right);
  model.train();
}
