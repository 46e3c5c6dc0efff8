// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random calls for a chosen time: soak [--seconds 60] [--seed N] | soak --epoch N. Prints the seed first; on an error, the epoch to repeat.
#include <chrono>
#include <cstdio>
#include <exception>

#include "soak/orders.hpp"
#include "soak/outline.hpp"

namespace {

bool passes(std::uint64_t seed) {
  const soak::outline o{seed};
  try {
    switch (o.over) {
      case 0:
      case 1: soak::over_threads(o); break;
      case 2:
      case 3: soak::over_processes(o); break;
      default: soak::over_messages(o);
    }
    return true;
  } catch (const std::exception& e) {
    std::printf("FAILED: %s\nagain: soak --epoch %llu\n", e.what(), static_cast<unsigned long long>(seed));
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using clock = std::chrono::steady_clock;
  const soak::orders told{argc, argv};
  if (told.epoch) return passes(*told.epoch) ? 0 : 1;
  std::printf("soak --seconds %.0f --seed %llu\n", told.seconds, static_cast<unsigned long long>(told.seed));
  std::fflush(stdout);
  long epochs = 0, steps = 0;
  for (const auto end = clock::now() + std::chrono::duration<double>(told.seconds); clock::now() < end; ++epochs) {
    const auto epoch = soak::mixed(told.seed, static_cast<std::uint64_t>(epochs));
    if (!passes(epoch)) return 1;
    steps += soak::outline{epoch}.steps;
  }
  std::printf("%ld epochs, %ld steps, nothing wrong\n", epochs, steps);
}
