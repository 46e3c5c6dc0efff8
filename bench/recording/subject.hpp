// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Communicators that record different events. Collective among the ranks that the environment names.
#pragma once

#include <cstddef>
#include <memory>

namespace kolo_bench {

struct subject {
  virtual ~subject() = default;
  /// The time of `calls` calls, one after another.
  virtual double seconds(std::size_t bytes, int calls) = 0;
};

std::unique_ptr<subject> as_it_is();
std::unique_ptr<subject> compiled_again();
std::unique_ptr<subject> with_trace();
std::unique_ptr<subject> without_recorder();

}  // namespace kolo_bench
