// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// distributed_optimizer and the functions around it: p ranks with one batch each train like one rank with all batches.
#include <kolo/train/optimizer.hpp>

#include <kolo/core/error.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/root.hpp>
#include <kolo/train/state.hpp>

#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <vector>

namespace {

struct parameter {
  std::span<float> value, gradient;
};

/// Three tensors of different sizes, one of them empty.
struct model {
  std::vector<float> values[3], gradients[3];

  explicit model(float first) {
    float next = first;
    for (std::size_t i = 0; i < 3; ++i) {
      values[i].resize(i * 37), gradients[i].resize(i * 37);
      for (float& v : values[i]) v = next++;
    }
  }
  std::array<parameter, 3> parameters() {
    return {parameter{values[0], gradients[0]}, parameter{values[1], gradients[1]}, parameter{values[2], gradients[2]}};
  }
  void set_gradients(float g) {
    for (auto& tensor : gradients)
      for (float& x : tensor) x = g++;
  }
};

struct sgd {
  float rate;
  std::vector<std::size_t>* calls = nullptr;
  void step(std::size_t index, std::span<float> value, std::span<const float> gradient) {
    if (calls) calls->push_back(index);
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= rate * gradient[i];
  }
};

constexpr int sizes[] = {1, 2, 3, 4, 5, 8};

/// Catch2 macros stay on the main thread: ranks count their errors.
struct tally {
  std::atomic<int> wrong = 0;
  void expect(bool right) { wrong += !right; }
};

template <class Algorithm>
void check_steps(Algorithm algorithm) {
  for (const int p : sizes) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      model mine{1}, reference{1};
      kolo::distributed_optimizer optimizer{comm, sgd{0.5f}, mine.parameters(), algorithm};
      for (int k = 0; k < 3; ++k) {
        mine.set_gradients(float(8 * comm.rank() + k));
        optimizer.step();
        reference.set_gradients(float(4 * (p - 1) + k));  // the mean over the ranks: exact
        std::size_t i = 0;
        for (parameter r : reference.parameters()) sgd{0.5f}.step(i++, r.value, r.gradient);
        for (i = 0; i < 3; ++i) t.expect(mine.values[i] == reference.values[i]);
      }
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

}  // namespace

TEST_CASE("each rank steps with the mean of the gradients") { check_steps(kolo::automatic{}); }
TEST_CASE("each rank steps with the mean of the gradients: ring") { check_steps(kolo::ring{}); }
TEST_CASE("each rank steps with the mean of the gradients: recursive doubling") {
  check_steps(kolo::recursive_doubling{});
}

TEST_CASE("synchronize averages the gradients and changes no parameter, and step does not exchange them again") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{1};
    const model before = mine;
    kolo::distributed_optimizer optimizer{comm, sgd{1}, mine.parameters()};
    mine.set_gradients(float(2 * comm.rank()));  // mean: from 1 on
    optimizer.synchronize();
    for (std::size_t i = 0; i < 3; ++i) t.expect(mine.values[i] == before.values[i]);
    t.expect(mine.gradients[1][0] == 1 && mine.gradients[1][36] == 37);
    for (auto& g : mine.gradients[1]) g = 0;  // as a clipping function might do
    optimizer.step();
    t.expect(mine.values[1] == before.values[1]);
    t.expect(mine.values[2][0] == before.values[2][0] - 38);
    mine.set_gradients(float(2 * comm.rank()));
    optimizer.step();  // exchanges again
    t.expect(mine.values[1][0] == before.values[1][0] - 1);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("the inner optimizer gets each parameter once, in order, and is accessible") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{0};
    std::vector<std::size_t> calls;
    auto parameters = mine.parameters();
    kolo::distributed_optimizer optimizer{comm, sgd{1, &calls}, parameters};  // a range that outlives it is not copied
    optimizer.inner().rate = 0;
    optimizer.step();
    t.expect(calls == std::vector<std::size_t>{0, 1, 2});
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("a gradient whose size differs from its value's is refused, with the parameter's index") {
  std::vector<float> value(3), gradient(3), short_gradient(2);
  std::string why;
  try {
    kolo::threads::run(1, [&](auto& comm) {
      const std::vector<parameter> parameters{{value, gradient}, {value, short_gradient}};
      kolo::distributed_optimizer optimizer{comm, sgd{1}, parameters};
    });
  } catch (const kolo::error& e) {
    CHECK(e.code() == kolo::errc::invalid_argument);
    why = e.what();
  }
  CHECK(why.find("parameter 1 has 3 values, but a gradient of 2") != std::string::npos);
}

TEST_CASE("broadcast_parameters gives all ranks the root's parameters, and does not change gradients") {
  for (const int p : sizes)
    for (const int root : {0, p - 1}) {
      tally t;
      kolo::threads::run(p, [&](auto& comm) {
        model mine{float(100 * comm.rank())};
        const model of_root{float(100 * root)};
        mine.set_gradients(float(comm.rank()));
        const auto before = mine.gradients[2];
        kolo::broadcast_parameters(comm, mine.parameters(), root);
        for (std::size_t i = 0; i < 3; ++i) t.expect(mine.values[i] == of_root.values[i]);
        t.expect(mine.gradients[2] == before);
      });
      CHECK(t.wrong == 0);
    }
}

TEST_CASE("average_metrics averages, and on_root calls on the root only") {
  tally t;
  std::atomic<int> calls = 0;
  kolo::threads::run(4, [&](auto& comm) {
    double metrics[] = {double(comm.rank()), 10};
    kolo::average_metrics(comm, metrics);
    t.expect(metrics[0] == 1.5 && metrics[1] == 10);
    t.expect(kolo::on_root(comm, [&] { ++calls; }) == (comm.rank() == 0));
    t.expect(kolo::on_root(
                 comm, [&] { ++calls; }, 3) == (comm.rank() == 3));
  });
  CHECK(t.wrong == 0);
  CHECK(calls == 2);
}
