// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of ranks that calls a function at some use: its rank dies, or runs out of memory.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace testing {

[[noreturn]] inline void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

/// Calls Ends at use `uses_left` of this thread, from when it is set; -1: never. Counts the regions that this process has reserved and not given back.
template <class Memory, void (*Ends)()>
struct ending_memory : Memory {
  static inline thread_local int uses_left = -1;
  static void use() {
    if (uses_left > 0 && --uses_left == 0) Ends();
  }
  std::uint64_t reserve(std::size_t bytes) {
    use();
    const auto region = Memory::reserve(bytes);
    const std::lock_guard lock{kept->mutex};
    kept->regions.insert(region);
    return region;
  }
  std::shared_ptr<std::byte> map(std::uint64_t region, std::size_t bytes) const {
    return use(), Memory::map(region, bytes);
  }
  void seal(std::uint64_t region) const { use(), Memory::seal(region); }
  void discard(std::uint64_t region, std::size_t bytes) const {
    Memory::discard(region, bytes);
    const std::lock_guard lock{kept->mutex};
    kept->regions.erase(region);
  }
  std::size_t regions_kept() const { return kept->regions.size(); }

  struct reserved {
    std::mutex mutex;
    std::set<std::uint64_t> regions;
  };
  std::shared_ptr<reserved> kept = std::make_shared<reserved>();
};

}  // namespace testing
