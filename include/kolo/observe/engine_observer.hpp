// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gives a decorator the operation and the round that its communicator runs.
#pragma once

#include <kolo/impl/engine.hpp>

namespace kolo::inline KOLO_ABI::detail::observe {

/// A virtual base of decorators: one that decorates another has it in common with that one. It is part of the
/// communicator that it watches, so a move ends the watching.
class engine_observer {
 public:
  engine_observer() = default;
  engine_observer(engine_observer&&) noexcept {}
  engine_observer& operator=(engine_observer&&) noexcept { return sequence_ = nullptr, *this; }

  template <Transport T>
  void watch(const execute::engine<T>& e) {
    oldest_ = &e.oldest;
    at_work_ = &e.pair_at_work;
    sequence_ = &e.sequence;
  }

 protected:
  bool is_watching() const { return sequence_ != nullptr; }
  /// The running operation, without the rank it waits for; sequence 0 and round -1 if it watches no communicator.
  wait_context running() const {
    if (!is_watching()) return {};
    if (const execute::operation* o = *at_work_ ? *at_work_ : *oldest_)
      return {.operation = o->now.operation,
              .sequence = o->now.sequence,
              .round = o->now.round,
              .is_point_to_point = o->now.is_point_to_point};
    return {.sequence = *sequence_, .round = 0};  // a small call has one round, and is not in the queue
  }

 private:
  execute::operation* const* oldest_ = nullptr;
  const execute::operation* const* at_work_ = nullptr;
  const std::uint64_t* sequence_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI::detail::observe
