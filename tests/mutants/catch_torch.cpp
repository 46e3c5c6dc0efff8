// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the adapter of libtorch: when gradients are ready, where they are stored, and which tensors are trained.
// linked with torch torch_cpu c10
#include <kolo/adapt/torch.hpp>

#include <torch/optim/sgd.h>

#include <cstdio>

#include "train/model.hpp"

using namespace testing;

namespace {

tally t;

/// One weight that is used, one that no loss depends on, and one with two names.
struct network : torch::nn::Module {
  torch::Tensor used = torch::ones({3}), rare = torch::ones({2});
  network() {
    used = register_parameter("used", used), rare = register_parameter("rare", rare), register_parameter("again", used);
  }
};

template <class Comm>
void trained(Comm& comm) {
  network mine;
  if (comm.rank() == 1) mine.used.set_data(torch::full({3}, 7.0f));
  kolo::broadcast_parameters(comm, mine);
  kolo::torch_optimizer optimizer{comm, torch::optim::SGD{{mine.used, mine.rare}, 0.5}, mine};
  t.expect(optimizer.buckets().names.size() == 2);
  for (int step = 0; step < 2; ++step) {
    if (step == 0) mine.used.mutable_grad().reset();  // backward() allocates a new one
    else optimizer.zero_grad();
    (mine.used * (static_cast<float>(comm.rank()) + 0.5f)).sum().backward();
    t.expect(optimizer.step());
  }
  t.expect(mine.used.eq(0).all().template item<bool>() && mine.rare.eq(1).all().template item<bool>());
}

}  // namespace

int main() {
  try {
    kolo::threads::run(2, [](auto& comm) { trained(comm); }, {.timeout = std::chrono::seconds{5}});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return t.wrong == 0 ? 0 : 1;
}
