// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of the command line and their defaults.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace synthetic {

struct settings {
  std::string model = "resnet50";
  std::vector<int> ranks{1, 2};
  double compute_ms = 100;  ///< per rank and step, forward and backward
  double backward_share = 2.0 / 3;
  double progress_us = 50;       ///< between two calls of the optimizer's progress() during the backward pass
  int batch = 32;                ///< samples per rank and step
  std::string overlap = "both";  ///< on, off or both: exchange during the backward pass, or after it
  std::size_t bucket_bytes = 0;  ///< 0: chosen by the cost model
  std::string algorithm = "auto";
  int steps = 10;
  int every = 5;               ///< steps between two lines of the table
  std::size_t shrink = 1;      ///< every tensor divided by this
  std::string simulate;        ///< file that describes a network; empty: processes of this host
  double expect_shorter = -1;  ///< per cent; negative: no expectation

  bool compares = false;  ///< interleave the variants of `moments` and `cuts` in one run; always true over MPI
  std::vector<std::string> moments{"after", "during"}, cuts{"planned"};  ///< see way.hpp
  double compute_exchanges = 0;   ///< instead of compute_ms: computation as a multiple of an exchange's duration
  std::string transport = "mpi";  ///< one of `transports`
  bool by_hand = true;            ///< over MPI: compare with MPI_Allreduce called by hand
  bool finalizes = true;          ///< over MPI: call MPI_Finalize

  std::vector<bool> modes() const {
    return overlap == "both" ? std::vector{false, true} : std::vector{overlap == "on"};
  }
};

inline constexpr const char* algorithms[] = {"auto", "ring", "two_shot"};

inline constexpr const char* transports[] = {"mpi", "routed"};
inline constexpr const char* moments[] = {"after", "during", "helper"};
inline constexpr const char* cuts[] = {"planned", "tensor", "one"};

/// Parses the command line, of the program over MPI or of the other one. Prints help, or what is wrong, and ends the program if need be.
settings parse(int argc, char** argv, bool over_mpi = false);

}  // namespace synthetic
