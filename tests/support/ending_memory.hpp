// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of ranks at some use of which something happens: its rank dies, or is told that there is no more.
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

/// Calls Ends at the use before which the thread has set `uses_left` to 1; -1: never. Counts the regions that were
/// reserved and not given back, by this process.
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
