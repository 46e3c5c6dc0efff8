// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest program that trains: equal parameters at the beginning, and an optimizer that averages gradients.
#include <cstddef>
#include <kolo/train.hpp>
#include <vector>

struct parameter {
  std::vector<float>&value, &gradient;
};

struct descent {
  void step(std::size_t, std::vector<float>& value, const std::vector<float>& gradient) const {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= 0.1f * gradient[i];
  }
};

int main() {
  return kolo::shm::launch(4, [](auto& comm) {
    std::vector<float> w(1'000'000, float(comm.rank())), dw(1'000'000, 1.0f), b(10), db(10);
    std::vector<parameter> parameters{{w, dw}, {b, db}};
    kolo::broadcast_parameters(comm, parameters);
    kolo::distributed_optimizer optimizer{comm, descent{}, parameters};
    for (int step = 0; step < 10; ++step) optimizer.step();
  });
}
