// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the command line; whatever is wrong with it is said in a sentence, before anything else happens.
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
    throw CLI::ValidationError("--fragments, --delay", "are of --outer, which is 0");
  if (s.outer > 0 && s.leaves > 0) throw CLI::ValidationError("--outer", "ranks learn by themselves: no --leaves");
  if (s.outer > 0 && (s.fragments > s.outer || s.delay >= s.outer))
    throw CLI::ValidationError("--outer", "choose at least as many as --fragments, and more than --delay");
}

/// Every rank, or every leaf, takes the same number of images of a batch.
void check_batch(const settings& s) {
  if ((s.leaves & (s.leaves - 1)) != 0) throw CLI::ValidationError("--leaves", "choose a power of two");
  if (s.leaves > 0 && s.algorithm != "auto")
    throw CLI::ValidationError("--leaves", "has an order of its own, so no --algorithm");
  for (const int ranks : s.ranks) {
    if (s.leaves > 0 && s.leaves < ranks)
      throw CLI::ValidationError("--leaves", "choose at least as many as there are ranks");
    const int p = s.parts(ranks);
    if (s.batch % p == 0) continue;
    const int below = s.batch / p * p;
    throw CLI::ValidationError("--batch", std::to_string(p) + (s.leaves > 0 ? " leaves" : " ranks") + " cannot share " +
                                              std::to_string(s.batch) + " images equally; choose a multiple of " +
                                              std::to_string(p) + ", such as " + std::to_string(below > 0 ? below : p));
  }
}

void add_options(CLI::App& app, settings& s) {
  const auto number = [&app](const char* flag, auto& value, long long least, long long most, const char* what) {
    app.add_option(flag, value, what)->check(whole_number(least, most))->capture_default_str();
  };
  app.add_option("--simulate", s.simulate, "Train on simulated ranks, on the network that this JSON file describes");
  app.add_option("--ranks", s.ranks, "Numbers of processes or of simulated ranks, one training after another")
      ->delimiter(',')
      ->check(
          [&s](
              const std::string& word) {  // --simulate has been read: options are, in the order in which they are added
            return whole_number(1, s.simulate.empty() ? most_ranks : most_simulated_ranks)(word);
          },
          "1 to " + std::to_string(most_ranks) + "; " + std::to_string(most_simulated_ranks) + " simulated ones")
      ->capture_default_str();
  number("--epochs", s.epochs, 1, 100'000, "How often every image is seen");
  number("--batch", s.batch, 1, 1'000'000, "Images of one step, over all ranks");
  number("--leaves", s.leaves, 0, most_simulated_ranks,
         "Learn a batch in so many parts, for the same bits on any number of ranks up to it; 0: a part a rank");
  number("--outer", s.outer, 0, 100'000,
         "Train beside it with local steps, an outer step every so many (kolo::outer_optimizer); 0: do not");
  number("--fragments", s.fragments, 1, 100'000, "Parts of the model with outer steps of their own");
  number("--delay", s.delay, 0, 100'000, "Steps that go on while a part is on its way");
  app.add_option("--algorithm", s.algorithm, "How gradients are averaged")
      ->check(one_of(algorithms))
      ->capture_default_str();
  app.add_option("--model", s.model, "What is trained")->check(one_of(models))->capture_default_str();
  number("--seed", s.seed, 0, INT64_MAX, "Of images, initial state and order");
  number("--images", s.images, 100, 10'000'000, "How many images to generate");
  app.add_option("--mnist", s.mnist, "Directory of the MNIST files, instead of generated images");
  app.add_option("--checkpoint", s.checkpoint, "File for the trained state, written after every epoch");
  app.add_option("--image-us", s.image_us, "Microseconds of a simulated rank for an image, forward and backward")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--accuracy-above", s.accuracy_above, "Fail unless the test accuracy is above so many per cent");
  app.add_option("--accuracy-below", s.accuracy_below, "Fail unless the test accuracy is below so many per cent");
}

}  // namespace

settings parse(int argc, char** argv) {
  settings s;
  CLI::App app{
      "Trains a classifier of handwritten digits, data-parallel on several processes of this host, or on simulated "
      "ranks."};
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
