// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training layer without train.hpp: the message names the header.
// expect: include <kolo/train.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/train.hpp>
#endif

#include <cstddef>
#include <span>
#include <vector>

struct parameter {
  std::span<float> value, gradient;
};
struct sgd {
  void step(std::size_t, std::span<float>, std::span<float>) {}
};

void f(kolo::threads::communicator& comm, std::vector<parameter>& parameters, std::vector<int>& dataset) {
  kolo::broadcast_parameters(comm, parameters);
  kolo::distributed_optimizer optimizer{comm, sgd{}, parameters};
  for ([[maybe_unused]] const int sample : kolo::shard(dataset, comm)) {
  }
}

int main() {}
