// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arguments of a soak: [--seconds 60] [--seed N] | --epoch N.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

namespace soak {

struct orders {
  orders(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      if (std::strcmp(argv[i], "--epoch") == 0) epoch = std::strtoull(argv[i + 1], nullptr, 10);
      if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
      if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
    }
  }
  double seconds = 60;
  std::uint64_t seed = std::random_device{}();
  std::optional<std::uint64_t> epoch{};  ///< only that one
};

}  // namespace soak
