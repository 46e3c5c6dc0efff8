// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Distinguishes the calls of several optimizers on one communicator.
#pragma once

#include <kolo/execute/engine.hpp>

#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::train {

/// Calls that start during its lifetime belong to the optimizer with this number. Calls of two optimizers may look
/// alike, so number and step are hashed into the call history: ranks that step optimizers in different orders, or that
/// are at different steps, do not match.
template <Transport T>
class calls_of {
 public:
  calls_of(execute::engine<T>& e, std::uint32_t number, long step = 0) : engine_{e} {
    e.owner = number;
    e.history = (e.history ^ (number + std::uint32_t(step) * 0x85ebca6bu)) * 0x9e3779b1u;
  }
  calls_of(const calls_of&) = delete;
  calls_of& operator=(const calls_of&) = delete;
  ~calls_of() { engine_.owner = 0; }

 private:
  execute::engine<T>& engine_;
};

}  // namespace kolo::inline KOLO_ABI::detail::train
