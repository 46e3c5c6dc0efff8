// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// State shared by processes that each have a fake CUDA runtime: device memory in one file, and interprocess events.
#pragma once

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cuda_double {

/// An interprocess event; each recording has a number.
struct shared_point {
  static constexpr std::size_t kept = 64;
  std::atomic<std::uint64_t> recorded{0}, wanted{0};
  std::atomic<std::uint64_t> passed[kept]{};  ///< by number
  std::atomic<bool> is_destroyed{false};      ///< by the process that made it

  bool has_passed(std::uint64_t n) const { return passed[n % kept].load() == n; }
};
struct shared_allocation {
  std::atomic<int> openings{0};
  std::atomic<bool> is_freed{false};
};

/// Made before the processes. Each allocation has its own place in the file, also if it reuses an address.
class common_ground {
 public:
  static constexpr std::size_t most_events = 1 << 13, most_allocations = 1 << 20;

  common_ground() : file_{::memfd_create("device memory", MFD_CLOEXEC)}, table_{map(sizeof(table))} {
    if (file_ < 0 || ::ftruncate(file_, off_t{1} << 40) != 0) std::abort();
  }
  common_ground(const common_ground&) = delete;
  ~common_ground() {
    ::munmap(table_, sizeof(table));
    ::close(file_);
  }

  int file() const { return file_; }
  std::uint64_t take_room(std::size_t bytes) { return table_->next_room.fetch_add(bytes); }
  void give_up(std::uint64_t at, std::size_t bytes) const {
    ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), static_cast<off_t>(bytes));
  }
  std::uint32_t new_event() { return checked(table_->next_event++, most_events); }
  std::uint32_t new_allocation() { return checked(table_->next_allocation++, most_allocations); }
  shared_point& event(std::uint32_t n) { return table_->events[n]; }
  shared_allocation& allocation(std::uint32_t n) { return table_->allocations[n]; }

  /// A rank waits for an event that another process, or this one, has recorded on a stream.
  void want(shared_point& e, std::uint64_t n) {
    if (e.wanted.exchange(n) == n) return;
    ring();
  }
  void ring() {
    ++table_->epoch;
    ::syscall(SYS_futex, &table_->epoch, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  std::uint32_t epoch() const { return table_->epoch.load(); }
  void sleep(std::uint32_t heard) const {
    ::syscall(SYS_futex, &table_->epoch, FUTEX_WAIT, heard, nullptr, nullptr, 0);
  }

 private:
  struct table {
    std::atomic<std::uint32_t> epoch, next_event, next_allocation;
    std::atomic<std::uint64_t> next_room;
    shared_point events[most_events];
    shared_allocation allocations[most_allocations];
  };
  static table* map(std::size_t bytes) {  // the table starts zeroed
    void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? std::abort(), nullptr : static_cast<table*>(p);
  }
  static std::uint32_t checked(std::uint32_t n, std::size_t most) { return n < most ? n : (std::abort(), n); }

  int file_;
  table* table_;
};

}  // namespace cuda_double
