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
  double compute_ms = 100;  ///< of a rank's step, forward and backward
  double backward_share = 2.0 / 3;
  double progress_us = 50;       ///< between two calls of the optimizer's progress(), while a rank computes
  int batch = 32;                ///< samples of one rank for which the compute phase stands
  std::string overlap = "both";  ///< on, off or both: exchange during the backward pass, or after it
  std::size_t bucket_bytes = 0;  ///< 0: chosen by the cost model
  std::string algorithm = "auto";
  int steps = 10;
  int every = 5;               ///< steps between two lines of the table
  std::size_t shrink = 1;      ///< every tensor divided by this
  std::string simulate;        ///< file that describes a network; empty: processes of this host
  double expect_shorter = -1;  ///< per cent; negative: nothing is expected

  bool compares = false;  ///< ways of exchanging take turns in one run (always over MPI): those of
  std::vector<std::string> moments{"after", "during"}, cuts{"planned"};  ///< see way.hpp
  double compute_exchanges =
      0;  ///< instead of compute_ms: so many times what an exchange takes, which is measured first
  std::string transport = "mpi";  ///< one of `transports`
  bool by_hand = true;            ///< over MPI, what one would write without a library takes part
  bool finalizes = true;          ///< MPI, at the end

  std::vector<bool> modes() const {
    return overlap == "both" ? std::vector{false, true} : std::vector{overlap == "on"};
  }
};

inline constexpr const char* algorithms[] = {"auto", "ring", "two_shot"};

inline constexpr const char* transports[] = {"mpi", "routed"};
inline constexpr const char* moments[] = {"after", "during", "helper"};
inline constexpr const char* cuts[] = {"planned", "tensor", "one"};

/// The settings that the command line asks for, of the program over MPI or of the other one. If it asks for help or for something that there is not,
/// says so and ends the program.
settings parse(int argc, char** argv, bool over_mpi = false);

}  // namespace synthetic
