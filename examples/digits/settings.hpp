// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be set on the command line, and what the program does without.
#pragma once

#include "dataset.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace digits {

struct settings {
  std::vector<int> ranks{1, 2, 4};
  int epochs = 8;
  int batch = 240;  // images of one step, over all ranks
  int leaves =
      0;          // equal parts of it that are learned one by one, whoever does: the same bits; 0: a part for each rank
  int outer = 0;  // steps that ranks take by themselves between two outer steps; 0: they average every gradient
  int fragments = 1;  // parts of the model that are exchanged at steps of their own
  int delay = 0;      // steps that go on while a part is on its way
  std::string algorithm = "auto";
  std::string model = "network";
  std::uint64_t seed = 1;
  std::size_t images = 30'000;  // to generate
  std::string mnist;            // directory; empty: generate
  std::string checkpoint;       // file; empty: none
  std::string simulate;         // file that describes a network; empty: train on processes
  double image_us = 20;         // microseconds that an image takes a simulated rank, forward and backward
  bool is_quiet = false;        // rank 0 shows nothing while it trains
  double accuracy_above = -1;   // per cent
  double accuracy_below = 101;

  /// Of the layers of the model, from the image to the ten digits.
  std::vector<int> widths() const {
    return model == "linear" ? std::vector{pixels, classes} : std::vector{pixels, 128, classes};
  }
  /// Parts of a batch, where so many ranks learn.
  int parts(int p) const { return leaves > 0 ? leaves : p; }
  const char* who() const { return simulate.empty() ? "processes" : "ranks"; }
};

inline constexpr const char* algorithms[] = {"auto", "ring", "recursive_doubling", "circulant", "one_shot", "two_shot"};
inline constexpr const char* models[] = {"network", "linear"};
inline constexpr int most_ranks = 64, most_simulated_ranks = 512;

/// The settings that the command line asks for. If it asks for help or for something that there is not, says so and ends the
/// program.
settings parse(int argc, char** argv);

}  // namespace digits
