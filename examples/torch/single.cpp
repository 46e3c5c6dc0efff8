// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains a convolutional network on handwritten digits with libtorch: single.cpp in one process, parallel.cpp on several ranks.
#include "digits.hpp"

struct network : torch::nn::Module {
  torch::nn::Conv2d near{torch::nn::Conv2dOptions(1, 8, 5).stride(2)},
      far{torch::nn::Conv2dOptions(8, 16, 5).stride(2)};
  torch::nn::Linear inner{16 * 4 * 4, 64}, outer{64, 10};

  network() {
    register_module("near", near), register_module("far", far);
    register_module("inner", inner), register_module("outer", outer);
  }
  torch::Tensor forward(torch::Tensor x) {  // (b, 1, 28, 28)
    x = torch::tanh(near(x));               // (b, 8, 12, 12)
    x = torch::tanh(far(x)).flatten(1);     // (b, 256)
    return outer(torch::tanh(inner(x)));    // (b, 10)
  }
};

int main(int argc, char** argv) {
  const settings s{argc, argv};
  const digits::split data = digits::generate_split(s.images, s.images / 4, 1);
  const samples train = tensors_of(data.train), test = tensors_of(data.test);
  torch::set_num_threads(1);
  torch::manual_seed(1);

  network model;
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9);
  torch::optim::SGD optimizer{model.parameters(), options};
  for (int epoch = 1; epoch <= s.epochs; ++epoch) {
    const std::vector<samples> shuffled = batches(train, s.batch, epoch);
    for (const samples& batch : shuffled) {
      optimizer.zero_grad();
      torch::cross_entropy_loss(model.forward(batch.images), batch.labels).backward();
      optimizer.step();
    }
    report(epoch, model, test);
  }
}
