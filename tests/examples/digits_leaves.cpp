// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// With --leaves, digits and the small GPT learn the same parameters on threads and on simulated ranks; leaves.sh tests processes.
#include "generator.hpp"
#include "training.hpp"

#include "../../examples/gpt/training.hpp"

#include <kolo/launch/threads.hpp>
#include <kolo/schedule/automatic.hpp>
#include <kolo/simulate/simulated.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace {

/// Runs f on every rank.
template <class F>
void on_threads(int p, F f) {
  kolo::threads::run(p, f);
}
template <class F>
void on_simulated(int p, F f) {
  kolo::virtual_time::run(p, kolo::simulate::network{}, f);
}

/// learn(comm, outcome) trains; checks that the parameters are those of one thread.
template <class Outcome, class Learn>
void check_one_hash(Learn learn) {
  Outcome first, out;
  on_threads(1, [&](auto& comm) { learn(comm, first); });
  for (const int p : {2, 3, 4, 8}) {
    on_threads(p, [&](auto& comm) { learn(comm, out); });
    CHECK(out.digest == first.digest);
    on_simulated(p, [&](auto& comm) { learn(comm, out); });
    CHECK(out.digest == first.digest);
  }
}

}  // namespace

TEST_CASE("leaves: digits gives the same bits on any number of threads and of simulated ranks") {
  const digits::split data = digits::generate_split(240, 40, 1);
  digits::settings s;
  s.epochs = 1, s.batch = 80, s.leaves = 8, s.is_quiet = true;
  check_one_hash<digits::outcome>([&](auto& comm, digits::outcome& out) {
    std::vector<double> curve(3);  // one loss per step: 240 / 80
    digits::train(comm, kolo::automatic{}, s, data, out, curve);
  });
}

TEST_CASE("leaves: the small GPT gives the same bits on any number of threads and of simulated ranks") {
  const std::vector<int> text = gpt::numbers_of(std::string(300, 'a') + std::string(300, 'b') + "some words");
  const gpt::settings s{
      .batch = 8, .model = {.places = 8, .width = 8, .heads = 2, .layers = 1}, .sample = 0, .text = {}};
  check_one_hash<gpt::outcome>([&](auto& comm, gpt::outcome& out) {
    std::vector<double> curve(3);
    gpt::train(
        comm, [](auto&... all) { return gpt::make_sharded(all...); }, s, text, out, curve);
  });
}
