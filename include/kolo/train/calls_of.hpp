// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells the calls of one optimizer from those of another on the same communicator.
#pragma once

#include <kolo/execute/engine.hpp>

#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::train {

/// While it lives, calls that start belong to the optimizer of this number. Calls of two optimizers may look alike, so
/// their numbers enter the history: ranks that step them in different orders do not match, nor ranks at different
/// steps.
template <Transport T>
class calls_of {
 public:
  calls_of(execute::engine<T>& e, std::uint32_t number, long step = 0) : engine_{e} {
    e.owner = number;
    e.history = (e.history ^ (number + static_cast<std::uint32_t>(step) * 0x85ebca6bu)) * 0x9e3779b1u;
  }
  calls_of(const calls_of&) = delete;
  calls_of& operator=(const calls_of&) = delete;
  ~calls_of() { engine_.owner = 0; }

 private:
  execute::engine<T>& engine_;
};

}  // namespace kolo::inline KOLO_ABI::detail::train
