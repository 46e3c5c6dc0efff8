// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which process made an object: its copy in a forked child is not the rank's.
#pragma once

#include <kolo/config.hpp>

#include <pthread.h>

namespace kolo::inline KOLO_ABI::detail::core {

/// The process that constructs it. Costs no system call: `fork` counts the generations. (A child made by vfork, or by
/// the bare system call, is not counted, and may only call exec or _exit. glibc removes the handler of a shared object
/// together with the object.)
class own_process {
 public:
  own_process() {
    [[maybe_unused]] static const int known = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });
  }
  bool is_this() const { return made_in_ == *counter_; }

 private:
  static inline unsigned generation = 0;   ///< of this process: changes while it has one thread
  const unsigned* counter_ = &generation;  ///< the maker's: a shared object that hides its symbols has its own
  unsigned made_in_ = generation;
};

}  // namespace kolo::inline KOLO_ABI::detail::core
