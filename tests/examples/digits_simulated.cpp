// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training loop on simulated ranks: it gives the bits of threads, in a reproducible virtual time.
#include "generator.hpp"
#include "report.hpp"
#include "training.hpp"

#include <kolo/launch/threads.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/simulate/simulated.hpp>

#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <unistd.h>
#include <fstream>
#include <iterator>
#include <string>

namespace {

#ifdef KOLO_SANITIZED
constexpr int most = 16;  // each rank has all parameters, and every access is much slower
#else
constexpr int most = 64;
#endif
constexpr kolo::simulate::network two_nodes{.ranks_per_node = most / 2, .cards_per_node = 1}, no_time{0, 0, 0, 0, 0};

const digits::split& data() {
  static const auto all = digits::generate_split(1280, 200, 1);
  return all;
}

digits::settings small(const char* model = "linear") {
  digits::settings s;
  s.model = model;
  s.epochs = 2;
  s.batch = 640;
  s.checkpoint = "digits_simulated_" + std::to_string(::getpid()) + ".state";
  return s;
}

struct trained {
  digits::outcome result{};
  std::vector<double> curve = std::vector<double>(4);  // two steps per epoch
  std::string state{};                                 // all parameters
  double seconds = 0;
};

/// `start` calls its argument on every rank with a communicator, and returns seconds.
template <class Algorithm, class Start>
trained train(const digits::settings& s, Algorithm algorithm, Start start) {
  trained t;
  t.seconds = start([&](auto& comm) { digits::train(comm, algorithm, s, data(), t.result, t.curve); });
  std::ifstream file{s.checkpoint, std::ios::binary};
  t.state.assign(std::istreambuf_iterator<char>{file}, {});
  ::unlink(s.checkpoint.c_str());
  return t;
}
template <class Algorithm = kolo::circulant>
trained simulated(int ranks, const kolo::simulate::network& n, Algorithm algorithm = {}) {
  return train(small(), algorithm, [&](auto f) { return kolo::virtual_time::run(ranks, n, f).seconds; });
}

}  // namespace

TEST_CASE("simulated: simulated ranks learn the same parameters as threads, bit for bit") {
  const auto s = small("network");
  const auto virtually =
      train(s, kolo::circulant{}, [](auto f) { return kolo::virtual_time::run(most, two_nodes, f).seconds; });
  const auto really = train(s, kolo::circulant{}, [](auto f) {
    kolo::threads::run(most, f);
    return 0.0;
  });
  CHECK(virtually.state.size() > 400'000);
  CHECK((virtually.state == really.state));
  CHECK(virtually.result.accuracy == really.result.accuracy);
  CHECK(virtually.result.accuracy > 0.1);
  for (std::size_t i = 0; i < virtually.curve.size(); ++i)
    CHECK(virtually.curve[i] == Approx(really.curve[i]).epsilon(1e-12));
}

TEST_CASE("simulated: the network changes times, and not parameters") {
  const auto slow = simulated(most, two_nodes), quick = simulated(most, no_time), again = simulated(most, two_nodes);
  CHECK((slow.state == quick.state));
  CHECK(slow.seconds == again.seconds);
  CHECK(slow.result.seconds.total() == again.result.seconds.total());
  const double images = 4 * (640.0 / most) * 20e-6;  // steps, images per rank, seconds per image
  CHECK(quick.seconds == Approx(images).epsilon(1e-9));
  CHECK(quick.result.seconds.compute == Approx(images).epsilon(1e-9));
  CHECK(quick.result.seconds.communication == Approx(0).margin(1e-12));
  CHECK(slow.result.seconds.compute == Approx(images).epsilon(1e-9));
  CHECK(slow.result.seconds.communication >
        4 * 2 * (most - 1.0) / most * 31'400 *
            two_nodes.seconds_per_byte);  // the time of the bytes that one rank receives through a card
}

TEST_CASE("simulated: other numbers of ranks learn the same up to rounding") {
  const auto few = simulated(4, two_nodes), many = simulated(most, two_nodes, kolo::ring{});
  CHECK(digits::compare(few.curve, many.curve, 2).within_tolerance());
}
