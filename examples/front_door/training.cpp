// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Four lines make a training loop data-parallel.
//
// Rank r gets batches r, r + p, r + 2p ... of the data, and gradients are averaged over all ranks. The model is a straight
// line with known parameters, so the result can be checked. Start the program with mpiexec, srun or torchrun; without a
// launcher it starts the ranks itself.
#include "expect.hpp"
#include "under_launcher.hpp"

#include <kolo/train.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

/// A tensor and its gradient.
struct parameter {
  std::span<float> value, gradient;
};

/// y = a x + b
struct line {
  std::vector<float> a, b, gradient_of_a{0}, gradient_of_b{0};
  std::vector<parameter> parameters() { return {{a, gradient_of_a}, {b, gradient_of_b}}; }
};

struct sample {
  float x, y;
};
using batch_of_samples = std::vector<sample>;

/// Samples of y = 2x - 1.
std::vector<batch_of_samples> make_dataset() {
  std::vector<batch_of_samples> batches(400);
  for (std::size_t i = 0; i < batches.size(); ++i)
    for (std::size_t k = 0; k < 8; ++k) {
      const float x = float((37 * i + 11 * k) % 101) / 101 - 0.5f;
      batches[i].push_back({x, 2 * x - 1});
    }
  return batches;
}

/// Sets the gradients to those of half the mean squared error. Does not change parameters.
void backward(line& model, const batch_of_samples& batch) {
  float& of_a = model.gradient_of_a[0] = 0;
  float& of_b = model.gradient_of_b[0] = 0;
  for (const auto& [x, y] : batch) {
    const float error = model.a[0] * x + model.b[0] - y;
    of_a += error * x / float(batch.size());
    of_b += error / float(batch.size());
  }
}

struct sgd {
  float rate;
  void step(std::size_t, std::span<float> value, std::span<const float> gradient) const {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= rate * gradient[i];
  }
};

void train() {
  const auto dataset = make_dataset();
  const float own = float(kolo::from_environment().rank);
  line model{.a = {own}, .b = {-own}};  // initial values differ between ranks; rank 0's are broadcast

  // clang-format off
auto comm = kolo::shm::world();                                                   // 1
kolo::broadcast_parameters(comm, model.parameters());                             // 2
kolo::distributed_optimizer optimizer{comm, sgd{0.1f * comm.size()}, model.parameters()};   // 3
for (const auto& batch : kolo::shard(dataset, comm)) {                            // 4
  backward(model, batch);
  optimizer.step();
}
  // clang-format on

  expect(std::abs(model.a[0] - 2) < 0.1f && std::abs(model.b[0] + 1) < 0.05f, "the line is found");
  std::vector<float> slopes(std::size_t(comm.size()));
  kolo::allgather(comm, model.a, slopes);
  for (float a : slopes) expect(a == model.a[0], "all ranks have the same model, bit for bit");
  if (comm.rank() == 0)
    std::printf("%d process%s: y = %.3f x %+.3f after %zu batches each\n", comm.size(), comm.size() == 1 ? "" : "es",
                model.a[0], model.b[0], kolo::shard(dataset, comm).size());
}

int main() {
  const bool launched = kolo::from_environment().size > 1;
  train();
  return launched ? 0 : under_launcher(4, train);
}
