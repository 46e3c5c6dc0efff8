// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scaling study: ResNet-50 on increasing numbers of GPUs, compared with published figures.
#pragma once

#include "overlap.hpp"

#include <kolo/simulate/network.hpp>

#include <string>
#include <vector>

namespace scaling {

struct study {
  std::vector<int> gpus{1, 2, 4, 8, 16, 32, 64, 128, 256};
  double rate = 3012.0 / 4;         ///< images per second of one GPU without communication
  int batch = 256;                  ///< images per GPU and step
  double backward_share = 2.0 / 3;  ///< fraction of a step's computation
  double overlap = 1;               ///< see step_of_training
  double bucket_mib = 25;           ///< of gradients in memory, four bytes each
  std::size_t wire_bytes = 4;       ///< of a gradient on the wire
  std::string algorithm{};          ///< empty: the fastest for each bucket
};

/// Published throughput in images per second.
struct published {
  int gpus;
  double rate;
  const char* remark;
};
inline constexpr published figures[] = {{4, 3012, "the base"},
                                        {8, 5874, ""},
                                        {32, 19600, "about"},
                                        {256, 143000, "about"},
                                        {256, 171000, "with a later CUDA"}};

struct row {
  int gpus = 0;
  double rate = 0;                        ///< images per second
  double seconds = 0;                     ///< of a step
  double communication = 0;               ///< fraction of it with communication only
  double efficiency = 0;                  ///< rate per GPU / study::rate
  std::vector<std::string> algorithms{};  ///< in the order of the buckets, without consecutive repetitions
};

/// One row for each number of GPUs.
std::vector<row> predict(const study&, const kolo::simulate::network&);

/// Prints the assumptions and the table.
void print(const study&, const std::vector<row>&, const std::string& network_file);

/// Errors  std::runtime_error if the file cannot be written.
void write_csv(const std::vector<row>&, const std::string& path);

}  // namespace scaling
