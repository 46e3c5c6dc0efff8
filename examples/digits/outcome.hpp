// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The results of a training run, for the process that started it.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <system_error>
#include <type_traits>

namespace digits {

/// The time of a run in seconds, means over the ranks.
struct durations {
  double compute = 0;        // batches, forward, backward
  double communication = 0;  // averaging gradients and metrics, and waiting for slower ranks
  double update = 0;         // the optimizer
  double judging = 0;        // evaluation on the test set, and the checkpoint

  double total() const { return compute + communication + update + judging; }
};

/// The results on rank 0.
struct outcome {
  double accuracy = 0;  // on the test set
  durations seconds;
  double apart = 0;          // images/s of as many independent trainings at once; 0: not measured
  std::uint64_t digest = 0;  // of the bits of all parameters
  char unsaved[512] = {};    // why the last checkpoint could not be written; empty: it was written
};

/// n values in memory shared with processes that are forked later: children write, the parent reads.
template <class T>
class shared_array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit shared_array(std::size_t n) : count_{n} {
    void* memory = ::mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "no memory for the results");
    values_ = static_cast<T*>(memory);
    for (T& value : values()) new (&value) T{};
  }
  shared_array(const shared_array&) = delete;
  shared_array& operator=(const shared_array&) = delete;
  ~shared_array() { ::munmap(values_, count_ * sizeof(T)); }

  std::span<T> values() const { return {values_, count_}; }

 private:
  std::size_t count_;
  T* values_;
};

}  // namespace digits
