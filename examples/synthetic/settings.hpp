// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be set on the command line, and what the program does without.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace synthetic {

struct settings {
  std::string model = "resnet50";
  std::vector<int> ranks{1, 2};
  double compute_ms = 100;        ///< of a rank's step, forward and backward
  double backward_share = 2.0 / 3;
  double progress_us = 50;        ///< between two calls of the optimizer's progress(), while a rank computes
  int batch = 32;                 ///< samples of one rank for which the compute phase stands
  std::string overlap = "both";   ///< on, off or both: exchange during the backward pass, or after it
  std::size_t bucket_bytes = 0;   ///< 0: chosen by the cost model
  std::string algorithm = "auto";
  int steps = 10;
  int every = 5;                  ///< steps between two lines of the table
  std::size_t shrink = 1;         ///< every tensor divided by this
  std::string simulate;           ///< file that describes a network; empty: processes of this host
  double expect_shorter = -1;     ///< per cent; negative: nothing is expected

  std::vector<bool> modes() const { return overlap == "both" ? std::vector{false, true} : std::vector{overlap == "on"}; }
};

inline constexpr const char* algorithms[] = {"auto", "ring", "two_shot"};

/// The settings that the command line asks for. If it asks for help or for something that there is not, says so and ends the program.
settings parse(int argc, char** argv);

}  // namespace synthetic
