// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and checks the command line.
#include "settings.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace digits {
namespace {

template <std::size_t N>
CLI::Validator one_of(const char* const (&names)[N]) {
  std::string list = names[0];
  for (std::size_t i = 1; i < N; ++i) list += (i + 1 < N ? ", " : " or ") + std::string{names[i]};
  const auto check = [&names, list](const std::string& word) -> std::string {
    if (std::find(std::begin(names), std::end(names), word) != std::end(names)) return {};
    return "there is no '" + word + "'; choose " + list;
  };
  return {check, list};
}

CLI::Validator whole_number(long long least, long long most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const auto check = [=](const std::string& word) -> std::string {
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(word.c_str(), &end, 10);
    if (!word.empty() && *end == '\0' && errno == 0 && least <= number && number <= most) return {};
    return "'" + word + "' is not possible; choose a whole number from " + range;
  };
  return {check, range};
}

void check_outer(const settings& s) {
  if (s.outer == 0 && (s.fragments > 1 || s.delay > 0))
    throw CLI::ValidationError("--fragments, --delay", "have no effect without --outer");
  if (s.outer > 0 && s.leaves > 0) throw CLI::ValidationError("--outer", "cannot be combined with --leaves");
  if (s.outer > 0 && (s.fragments > s.outer || s.delay >= s.outer))
    throw CLI::ValidationError("--outer", "must be at least --fragments and greater than --delay");
}

/// Every rank, or every leaf, must get the same number of images of a batch.
void check_batch(const settings& s) {
  if ((s.leaves & (s.leaves - 1)) != 0) throw CLI::ValidationError("--leaves", "choose a power of two");
  if (s.leaves > 0 && s.algorithm != "auto")
    throw CLI::ValidationError("--leaves", "fixes the order of the sums: cannot be combined with --algorithm");
  for (const int ranks : s.ranks) {
    if (s.leaves > 0 && s.leaves < ranks) throw CLI::ValidationError("--leaves", "choose at least the number of ranks");
    const int p = s.parts(ranks);
    if (s.batch % p == 0) continue;
    const int below = s.batch / p * p;
    throw CLI::ValidationError("--batch", std::to_string(s.batch) + " images cannot be divided equally among " +
                                              std::to_string(p) + (s.leaves > 0 ? " leaves" : " ranks") +
                                              "; choose a multiple of " + std::to_string(p) + ", such as " +
                                              std::to_string(below > 0 ? below : p));
  }
}

void add_options(CLI::App& app, settings& s) {
  const auto number = [&app](const char* flag, auto& value, long long least, long long most, const char* what) {
    app.add_option(flag, value, what)->check(whole_number(least, most))->capture_default_str();
  };
  app.add_option("--simulate", s.simulate, "Train on simulated ranks of the network described in this JSON file");
  app.add_option("--ranks", s.ranks,
                 "Numbers of processes, or of simulated ranks, separated by commas: one training each")
      ->delimiter(',')
      ->check(
          [&s](const std::string& word) {  // CLI11 processes options in the order of add_option: --simulate is read
            return whole_number(1, s.simulate.empty() ? most_ranks : most_simulated_ranks)(word);
          },
          "1 to " + std::to_string(most_ranks) + ", with --simulate to " + std::to_string(most_simulated_ranks))
      ->capture_default_str();
  number("--epochs", s.epochs, 1, 100'000, "Passes over the training images");
  number("--batch", s.batch, 1, 1'000'000, "Images per step, over all ranks");
  number("--leaves", s.leaves, 0, most_simulated_ranks,
         "Divide each batch into this many leaves (a power of two): the same parameters, bit for bit, on any number of "
         "ranks up to it; 0: one part per rank");
  number("--outer", s.outer, 0, 100'000,
         "After each training, train again with local steps and an outer step every N steps (kolo::outer_optimizer); "
         "0: do not");
  number("--fragments", s.fragments, 1, 100'000, "With --outer: fragments of the model, each with its own outer steps");
  number("--delay", s.delay, 0, 100'000, "With --outer: local steps between the start and the end of an exchange");
  app.add_option("--algorithm", s.algorithm, "Allreduce algorithm for gradients")
      ->check(one_of(algorithms))
      ->capture_default_str();
  app.add_option("--model", s.model, "Model: a network with a hidden layer, or linear")
      ->check(one_of(models))
      ->capture_default_str();
  number("--seed", s.seed, 0, INT64_MAX, "Seed of the images, the initial parameters and the order of images");
  number("--images", s.images, 100, 10'000'000, "Number of training images to generate");
  app.add_option("--mnist", s.mnist, "Read the MNIST files of this directory instead of generating images");
  app.add_option("--checkpoint", s.checkpoint, "Write a checkpoint to this file after every epoch");
  app.add_option("--image-us", s.image_us,
                 "With --simulate: microseconds of computation per image, forward and backward")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--accuracy-above", s.accuracy_above, "Fail unless the test accuracy, in per cent, is above this");
  app.add_option("--accuracy-below", s.accuracy_below, "Fail unless the test accuracy, in per cent, is below this");
}

}  // namespace

settings parse(int argc, char** argv) {
  settings s;
  CLI::App app{
      "Trains a classifier of handwritten digits, data-parallel, on processes of this host or on simulated ranks."};
  add_options(app, s);
  try {
    app.parse(argc, argv);
    check_batch(s), check_outer(s);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return s;
}

}  // namespace digits
