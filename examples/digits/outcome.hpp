// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a training run leaves behind for the process that started it.
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

/// Where the time of a run went: seconds, means over the ranks.
struct durations {
  double compute = 0;        // batches, forward, backward
  double communication = 0;  // averaging gradients and metrics; with the time spent waiting for slower ranks
  double update = 0;         // the optimizer
  double judging = 0;        // the ranks together; and while rank 0 saves

  double total() const { return compute + communication + update + judging; }
};

/// What rank 0 has to say at the end.
struct outcome {
  double accuracy = 0;  // on images that were not learned from
  durations seconds;
  double apart = 0;  // images a second of as many trainings at once that do not talk to each other; 0: not measured
  std::uint64_t digest = 0;  // of the bits of all parameters
  char unsaved[512] = {};    // why the last checkpoint could not be written; empty: it was
};

/// n values that processes have in common: children that are forked later write what their parent reads.
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
