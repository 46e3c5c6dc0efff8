// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of the command line and their defaults.
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
  int batch = 240;    // images of one step, over all ranks
  int leaves = 0;     // equal parts of a batch: the same bits on any number of ranks; 0: one part per rank
  int outer = 0;      // local steps per outer step; 0: gradients are averaged in every step
  int fragments = 1;  // of the model, each with its own outer steps
  int delay = 0;      // local steps between the start and the end of an exchange
  std::string algorithm = "auto";
  std::string model = "network";
  std::uint64_t seed = 1;
  std::size_t images = 30'000;  // training images to generate
  std::string mnist;            // directory; empty: generate
  std::string checkpoint;       // file; empty: none
  std::string simulate;         // file that describes a network; empty: train on processes
  double image_us = 20;         // simulated ranks: microseconds of computation per image, forward and backward
  bool is_quiet = false;        // rank 0 prints nothing during the training
  double accuracy_above = -1;   // per cent
  double accuracy_below = 101;

  /// Widths of the layers, from the image to the ten digits.
  std::vector<int> widths() const {
    return model == "linear" ? std::vector{pixels, classes} : std::vector{pixels, 128, classes};
  }
  /// Parts of a batch on p ranks.
  int parts(int p) const { return leaves > 0 ? leaves : p; }
  const char* who() const { return simulate.empty() ? "processes" : "ranks"; }
};

inline constexpr const char* algorithms[] = {"auto", "ring", "recursive_doubling", "circulant", "one_shot", "two_shot"};
inline constexpr const char* models[] = {"network", "linear"};
inline constexpr int most_ranks = 64, most_simulated_ranks = 512;

/// Parses the command line. Prints help, or what is wrong, and ends the program if need be.
settings parse(int argc, char** argv);

}  // namespace digits
