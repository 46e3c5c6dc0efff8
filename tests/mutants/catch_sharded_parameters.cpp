// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in sharded parameters: which groups are whole, gradients, state, buffers, and checkpoints of another number of ranks.
#include <kolo/launch/threads.hpp>
#include <kolo/train/sharded_parameters.hpp>

#include "train/model.hpp"

using namespace testing;

namespace {

tally t;
constexpr kolo::update::momentum rule{.rate = 0.5, .factor = 0.5};

float expected(std::size_t i, int steps) {
  float value = static_cast<float>(i), velocity = 0;
  for (int k = 1; k <= steps; ++k) velocity = 0.5f * velocity + static_cast<float>(k), value -= 0.5f * velocity;
  return value;
}

template <class C>
void learn(C& comm) {
  std::vector<kolo::sharded_tensor<float>> tensors{kolo::sharded_tensor<float>{5}, kolo::sharded_tensor<float>{4},
                                                   kolo::sharded_tensor<float>{1}};
  const std::vector<std::vector<kolo::sharded_tensor<float>*>> groups{{&tensors[0], &tensors[1]}, {&tensors[2]}};
  kolo::sharded_parameters shards{comm, rule, groups};
  const auto of_group = [](std::size_t g) {
    return g == 0 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{2};
  };
  shards.initialise([&](std::size_t g) {
    for (const std::size_t k : of_group(g))
      for (std::size_t i = 0; i < tensors[k].size(); ++i) tensors[k].value()[i] = static_cast<float>(10 * k + i);
  });
  try {
    const auto used = shards.use_with_gradients(0);
    throw 0;
  } catch (int) {
  }
  for (int step = 1; step <= 3; ++step) {
    for (const std::size_t g : {0UL, 1UL}) const auto used = shards.use(g);
    t.expect(tensors[0].value().empty());
    for (const std::size_t g : {1UL, 0UL}) {
      const auto used = shards.use_with_gradients(g);
      for (const std::size_t k : of_group(g))
        for (std::size_t i = 0; i < tensors[k].size(); ++i) {
          t.expect(tensors[k].value()[i] == expected(10 * k + i, step - 1) && tensors[k].gradient()[i] == 0);
          tensors[k].gradient()[i] +=
              static_cast<float>(step + (comm.rank() == 0 ? 1 : -1) * (comm.size() - 1 > 0 ? 1 : 0));
        }
    }
    shards.step();
  }
  const auto p = static_cast<std::size_t>(comm.size());
  t.expect(shards.bytes() <= sizeof(float) * (3 * ((9 + p - 1) / p + 1) + 4 * ((9 + p - 1) / p * p)));
  std::size_t mine = 0;
  for (const auto& s : shards.slices()) mine += s.count;
  std::vector<std::size_t> all{mine};
  kolo::allreduce(comm, all, kolo::sum);
  t.expect(all[0] == 10 && shards.elements() == 10);
}

}  // namespace

int main() {
  kolo::threads::run(2, [](auto& comm) { learn(comm); });
  return t.wrong == 0 ? 0 : 1;
}
