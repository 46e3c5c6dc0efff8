// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The network's gradients compared with differences of its loss, and its training over ranks with that of one rank.
#include "generator.hpp"
#include "judging.hpp"
#include "network.hpp"

#include <kolo/launch/threads.hpp>
#include <kolo/train/data.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/state.hpp>

#include "support/catch.hpp"

#include <malloc.h>
#include <sys/resource.h>

#include <cmath>
#include <vector>

namespace {

/// The number of pages that this process has got from the kernel.
long page_faults() {
  struct rusage used {};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

/// While this object exists, malloc takes blocks of 32 KiB and more from the kernel, and returns them when they are freed.
struct no_memory_is_kept {
#ifdef M_MMAP_THRESHOLD
  no_memory_is_kept() { ::mallopt(M_MMAP_THRESHOLD, 32 << 10); }
  ~no_memory_is_kept() { ::mallopt(M_MMAP_THRESHOLD, 128 << 10); }
#endif
};

struct descent {
  void step(std::size_t, std::span<float> value, std::span<const float> gradient) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= 0.1f * gradient[i];
  }
};

/// All parameters after three steps of p ranks.
std::vector<float> trained(int p, const digits::dataset& data) {
  std::vector<float> result;
  kolo::threads::run(p, [&](auto& comm) {
    digits::network model{{digits::pixels, 16, digits::classes}, std::uint64_t(1 + comm.rank())};
    kolo::broadcast_parameters(comm, model.parameters());
    kolo::distributed_optimizer optimizer{comm, descent{}, model.parameters()};
    const digits::batches shuffled{data, std::size_t(24 / p), 5};
    for (const digits::batch& b : kolo::shard(shuffled, comm)) {
      model.backward(b);
      optimizer.step();
    }
    if (comm.rank() == 0)
      for (const digits::parameter& q : model.parameters()) result.insert(result.end(), q.value.begin(), q.value.end());
  });
  return result;
}

}  // namespace

TEST_CASE("network: gradients are the differences of the loss") {
  const auto data = digits::generate(20, 1);
  const digits::batch b = digits::batches{data, 20, 1}[0];
  for (const std::vector<int>& widths : {std::vector{784, 10}, std::vector{784, 8, 10}, std::vector{784, 8, 6, 10}}) {
    digits::network model{widths, 3};
    model.backward(b);
    for (const digits::parameter& p : model.parameters()) {
      for (std::size_t i = 0; i < p.value.size(); i += 1 + p.value.size() / 5) {
        const double expected = double(p.gradient[i]);
        const float value = p.value[i], h = 0.0005f;
        const auto loss_at = [&](float x) {
          p.value[i] = x;
          return digits::network{model}.backward(b).loss;
        };
        const double up = loss_at(value + h), down = loss_at(value - h);
        p.value[i] = value;
        CHECK((up - down) / (2 * double(h)) == Approx(expected).margin(2e-3));
      }
    }
  }
}

TEST_CASE("network: p ranks with batches of b images train like one rank with batches of p b") {
  const auto data = digits::generate(72, 2);
  const auto alone = trained(1, data);
  for (const int p : {2, 3, 4, 8}) {
    const auto together = trained(p, data);
    REQUIRE(together.size() == alone.size());
    double worst = 0;
    for (std::size_t i = 0; i < alone.size(); ++i) worst = std::max(worst, double(std::abs(alone[i] - together[i])));
    INFO("ranks " << p);
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("network: a step allocates no large memory after the first one") {
  const auto data = digits::generate(960, 2);
  const digits::batches shuffled{data, 120, 5};
  digits::network model{{digits::pixels, 128, digits::classes}, 3};
  const no_memory_is_kept in_steps;
  const auto all = [&] {
    for (std::size_t i = 0; i < shuffled.size(); ++i) model.backward(shuffled[i]);
  };
  all();
  const long before = page_faults();
  for (int epoch = 0; epoch < 4; ++epoch) all();
  CHECK(page_faults() - before < 4 * 8 * 4);  // one block of 32 KiB per step would be 8 pages per step
}

TEST_CASE("network: the accuracy is the same on any number of ranks, and on all of them") {
  const auto data = digits::generate(1030, 4);  // the last slice has fewer images
  std::vector<double> found;
  for (const int p : {1, 2, 3, 16}) {
    std::vector<double> of_rank(static_cast<std::size_t>(p));
    kolo::threads::run(p, [&](auto& comm) {
      digits::network model{{digits::pixels, 16, digits::classes}, 6};
      of_rank[static_cast<std::size_t>(comm.rank())] = digits::accuracy(comm, model, data);
    });
    found.insert(found.end(), of_rank.begin(), of_rank.end());
  }
  CHECK(found.front() > 0);
  CHECK(found.front() * 1030 == Approx(std::round(found.front() * 1030)).margin(1e-9));
  CHECK(found == std::vector<double>(found.size(), found.front()));
}
