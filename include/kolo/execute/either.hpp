// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a call over a wire that has slots and messages: over the slots where they reach every rank, over the messages elsewhere.
#pragma once

#include <kolo/execute/messaging.hpp>
#include <kolo/execute/slotted.hpp>

#include <variant>

namespace kolo::inline v0::detail {

/// Stands for the operation that it has made, of one kind or the other.
template <class T>
  requires Slotted<T> && Messaging<T>
class either_run {
 public:
  either_run(engine<T>& e, const problem& job) {
    if (has_slots(e.transport)) how_.template emplace<slotted_run<T>>(e, job);
    else how_.template emplace<messaging_run<T>>(e, job);
  }
  either_run(const either_run&) = delete;
  either_run& operator=(const either_run&) = delete;

  operator operation&() {  // NOLINT: it is one
    if (auto* slots = std::get_if<1>(&how_)) return *slots;
    return *std::get_if<2>(&how_);
  }
  void say(const typename T::options& options) {
    if (auto* run = std::get_if<2>(&how_)) run->options = options;
  }
  void restart() {
    if (auto* slots = std::get_if<1>(&how_)) return slots->restart();
    std::get_if<2>(&how_)->restart();
  }

 private:
  std::variant<std::monostate, slotted_run<T>, messaging_run<T>> how_{};
};

}  // namespace kolo::inline v0::detail
