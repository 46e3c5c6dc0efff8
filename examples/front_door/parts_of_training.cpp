// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of training that training.cpp does not use: narrow wires, clipped and sparse gradients, metrics, checkpoints, leaves, sharded models, outer steps.
#include "expect.hpp"

#include <kolo/scaled.hpp>
#include <kolo/train.hpp>

#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

struct tensor {
  std::vector<float> value, gradient;
};
using model = std::vector<tensor>;

model make(float value, float gradient) { return {tensor{std::vector<float>(64, value), std::vector<float>(64, gradient)}}; }

/// Gradients with 8 bits per element and error feedback, divided by 4 before they are summed.
void narrow_gradients(auto& comm) {
  model m = make(1, float(comm.rank()));
  const auto op = kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::predivide(kolo::average, 4));
  kolo::distributed_optimizer optimizer{comm, kolo::replicated{kolo::update::sgd{.rate = 1}}, m, op,
                                        {.error_feedback = true, .density = 0.5, .inputs = kolo::uneven::by_all}};
  optimizer.step();
  expect(std::abs(m[0].value[0] + 0.5f) < 0.01f, "1 minus the mean of 0, 1, 2 and 3, nearly");
}

/// Gradients may be changed between the exchange and the update. The norm has the same bits on every rank.
void clipped_gradients(auto& comm) {
  model floats = make(0, 3);
  std::vector<double> value(4, 0), gradient(4, 0);
  struct wide {
    std::vector<double>&value, &gradient;
  };
  std::vector<wide> doubles{{value, gradient}};
  kolo::mixed_parameters both{floats, doubles};  // of two element types
  const auto gradients = kolo::gradients_of(floats);  // their views, for calls of collectives
  kolo::allreduce(comm, kolo::bucket{gradients}, kolo::average);
  const double norm = kolo::clip_by_global_norm(both, 12.0);
  expect(norm == 24 && floats[0].gradient[0] == 1.5f, "the root of 64 times 9, and half of each gradient");
  kolo::adasum combine{comm};
  combine(floats);
  expect(floats[0].gradient[0] == 1.5f, "adasum of equal gradients is one of them");
}

/// Each rank has gradients for two of 1000 rows of a table.
void sparse_gradients(auto& comm) {
  const std::uint64_t r = std::uint64_t(comm.rank());
  kolo::sparse_rows<float> rows{.height = 1000, .width = 2, .rows = {7, 100 + r}, .values = {1, 1, 2, 2}};
  kolo::sparse_allreduce(comm, rows, kolo::sum);
  expect(rows.rows.size() == 5 && rows.values[0] == 4 && rows.values[2] == 2, "row 7 of all, and one of each rank");
}

void metrics(auto& comm) {
  kolo::moments seen{.count = 1, .mean = double(comm.rank())};
  seen = kolo::merge_moments{}(seen, seen);  // merges the moments of both
  kolo::sync_moments(comm, std::span{&seen, 1});
  expect(seen.count == 8 && seen.mean == 1.5 && seen.variance() == 1.25, "of all ranks together");
  expect(kolo::agreed_steps(comm, 10 + std::size_t(comm.rank())) == 10, "as many steps as the rank with the least data");
  const kolo::step_decay rate{.from = 1, .factor = 0.5f, .every = 30};
  expect(rate(59) == 0.5f, "halved every 30 steps");
}

/// Broadcasts values that only rank 0 has, and states; saves a state of your own and that of a sharded optimizer to files.
void states(auto& comm, const std::string& file) {
  model m = make(float(comm.rank()), 1);
  kolo::broadcast_parameters(comm, m);
  kolo::replicated rule{kolo::update::momentum{.rate = 0.5, .factor = 0.5}};
  rule.step(0, m[0].value, m[0].gradient);
  kolo::broadcast_state(comm, rule);
  const std::string own = file + ".state" + std::to_string(comm.rank());
  kolo::save_state(own, rule);
  kolo::load_state(own, rule);

  kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{.rate = 1}, m};
  optimizer.synchronize();
  expect(optimizer.clip_by_global_norm(4) == 8, "64 gradients of 1, of which this rank has 16");
  optimizer.step();
  kolo::save_sharded_checkpoint(file, optimizer);  // each rank writes its part; any number of ranks can read it
  const float after = m[0].value[0];
  m[0].value.assign(64, 9);
  kolo::load_sharded_checkpoint(file, optimizer);
  expect(m[0].value[0] == after && after == -1, "0 - 0.5 - 0.5");
}

/// Eight micro-batches per step: the same bits on 1, 2, 4 and 8 ranks.
void leaves_of_a_batch(auto& comm) {
  model m = make(0, 0);
  kolo::distributed_optimizer optimizer{comm, kolo::replicated{kolo::update::sgd{.rate = 1}}, m, {.leaves = 8}};
  for (int leaf : optimizer.leaves()) {  // of this rank
    m[0].gradient.assign(64, float(leaf));
    optimizer.leaf(leaf);
  }
  optimizer.step();
  expect(m[0].value[0] == -3.5f, "0 minus the mean of 0 ... 7");
}

struct layer {
  kolo::sharded_tensor<float> weights{64};
  std::size_t group;
};

/// Each rank keeps a quarter of each layer; layers are gathered while they are used.
void shards_of_a_model(auto& comm) {
  std::vector<layer> layers{{.group = 0}, {.group = 1}};
  const std::vector<std::vector<kolo::sharded_tensor<float>*>> groups{{&layers[0].weights}, {&layers[1].weights}};
  kolo::sharded_parameters shards{comm, kolo::update::sgd{.rate = 1}, groups, {.ahead = 1}};
  for (auto& l : layers) {
    auto used = shards.use_with_gradients(l.group);
    l.weights.gradient()[63] = float(comm.rank());
  }
  shards.step();
  for (auto& l : layers) {
    auto used = shards.use(l.group);
    expect(l.weights.value()[63] == -1.5f, "0 minus the mean of 0, 1, 2 and 3");
  }
}

/// An outer step after every five local steps, with blend 0.5.
void slow_links(auto& comm) {
  model m = make(0, float(comm.rank()));
  kolo::replicated inner{kolo::update::sgd{.rate = 1}};
  kolo::outer_optimizer outer{comm, kolo::update::sgd{.rate = 1}, m, {.every = 5, .blend = 0.5}};
  for (int step = 0; step < 5; ++step) {
    inner.step(0, m[0].value, m[0].gradient);
    outer.step();
  }
  outer.finish();
  expect(m[0].value[0] == -7.5f, "five steps of the mean gradient");
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / ("kolo_parts_of_training." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const int status = kolo::shm::launch(4, [&](auto& comm) {
    narrow_gradients(comm);
    clipped_gradients(comm);
    sparse_gradients(comm);
    metrics(comm);
    states(comm, folder / "checkpoint");
    leaves_of_a_batch(comm);
    shards_of_a_model(comm);
    slow_links(comm);
  });
  std::filesystem::remove_all(folder);
  if (status == 0) std::puts("Narrow, clipped and sparse gradients, metrics, states, leaves and shards gave the right results.");
  return status;
}
