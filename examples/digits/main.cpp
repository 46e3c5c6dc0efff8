// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains a classifier of handwritten digits on 1, 2 and 4 processes, and checks that the loss curves agree.
#include "algorithms.hpp"
#include "judging.hpp"
#include "load.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "simulated.hpp"
#include "training.hpp"

#include <kolo/execute/self.hpp>
#include <kolo/launch/processes.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {
namespace {

/// One training on `ranks` processes or simulated ranks. Throws if a rank fails; its error is already printed.
run train_on(int ranks, const settings& s, const split& data) {
  const std::size_t steps = data.train.size() / std::size_t(s.batch) * std::size_t(s.epochs);
  if (!s.simulate.empty()) return train_simulated(ranks, s, data, steps);
  const shared_array<outcome> out{1};
  const shared_array<double> curve{steps};
  std::printf("\n%d process%s%s\n", ranks, ranks == 1 ? "" : "es", s.outer > 0 ? ", local steps" : "");
  const int status = kolo::shm::launch(ranks, [&](auto& comm) {
    with_algorithm(s.algorithm, [&](auto algorithm) {
      train(comm, algorithm, s, data, out.values()[0], curve.values());
      const double apart = rate_apart(comm, algorithm, s, data);
      kolo::on_root(comm, [&] { out.values()[0].apart = apart; });
    });
  });
  if (status != 0) throw std::runtime_error("the training on " + std::to_string(ranks) + " processes failed");
  return {ranks, steps * std::size_t(s.batch), out.values()[0], {curve.values().begin(), curve.values().end()}};
}

/// Loads the checkpoint and checks that its accuracy is that of the trained model.
bool check_checkpoint(const run& last, const settings& s, const split& data) {
  if (s.checkpoint.empty()) return true;
  if (last.result.unsaved[0] != '\0') {
    std::fprintf(stderr, "digits: the last checkpoint was not written: %s\n", last.result.unsaved);
    return false;
  }
  network model{s.widths(), s.seed};
  kolo::load_checkpoint(s.checkpoint, model.parameters());
  kolo::self::communicator alone;
  const double again = accuracy(alone, model, data.test);
  std::printf("Accuracy of the checkpoint in %s: %.2f %%\n", s.checkpoint.c_str(), 100 * again);
  return again == last.result.accuracy;
}

int run_all(const settings& s) {
  const split data = load(s);
  describe(data, s);
  settings synchronous = s;
  synchronous.outer = 0;
  std::vector<run> runs, local;
  for (const int ranks : s.ranks) {
    runs.push_back(train_on(ranks, synchronous, data));
    if (s.outer > 0) local.push_back(train_on(ranks, s, data));
  }
  print_summary(runs, s.simulate.empty() ? "Processes" : "Ranks");
  const bool same = print_curves(runs, s.epochs, s.who()) && (s.leaves == 0 || check_bits(runs)),
             accurate = check_accuracy(runs, s) && check_accuracy(local, s),
             saved = check_checkpoint(s.outer > 0 ? local.back() : runs.back(), s, data);
  if (s.outer > 0) print_beside(runs, local, s);
  return same && accurate && saved ? 0 : 1;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    return digits::run_all(digits::parse(argc, argv));
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "digits: %s\n", e.what());
    return 1;
  }
}
