// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explores a few ranks over an abstract memory, in every order and with every value that may be read, each state once: the interface for programs.
#pragma once

#include <kolo/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

// The code of the ranks is compiled with -fsanitize=thread, explorer.cpp is not, and the program is linked without it: so each memory access calls
// explorer.cpp, which replaces the sanitizer's library, and the code under test needs no changes for this.

namespace explore {

inline constexpr std::size_t most_ranks = 4;

/// All memory that several ranks access, in lanes: first the host's, then each rank's own, so that addresses do not depend on the order of steps.
inline constexpr std::size_t lane_bytes = 1 << 17;
alignas(4096) inline std::byte zone[(most_ranks + 1) * lane_bytes];
inline bool in_zone(const volatile void* p) { return zone <= p && p < zone + sizeof zone; }

/// What is explored. Ranks share only memory from `take`, and what they allocate.
struct scenario {
  int ranks = 2;
  /// A rank that polls without success goes on until it sleeps; otherwise it polls again when there is a new value.
  bool sleeps = false;
  bool fences_all = false;   ///< a rank may fence all ranks
  bool time_passes = false;  ///< clocks advance, and sleepers wake up when no rank can do anything else
  bool tells = true;         ///< prints the steps to a violation
  virtual ~scenario() = default;
  virtual void begin() {}  ///< before the ranks of each run
  virtual void rank(int r) = 0;
  virtual void end() {}  ///< after each run in which all ranks have ended
  virtual std::string name(std::uintptr_t address) const {
    return std::to_string(address - reinterpret_cast<std::uintptr_t>(zone));
  }
};

struct verdict {
  std::size_t states = 0, runs = 0, ends = 0;
  std::string violation{};  ///< empty: there is none
};

verdict explore(scenario& s, std::size_t most_states = 1'000'000);

// For ranks.

std::byte* take(std::size_t bytes, std::size_t alignment = 128);  ///< zeroed; freed at the end of the run
void require(bool holds, const char* otherwise);                  ///< otherwise this run is a violation
void destroy(void* p, std::size_t bytes);                         ///< no rank may access it any more
void pause();                                                     ///< after a fruitless poll
void keep_private(int rank, const volatile void* p);  ///< only that rank uses this atomic: its accesses are no steps

}  // namespace explore

#undef KOLO_PAUSE
#define KOLO_PAUSE() explore::pause()
