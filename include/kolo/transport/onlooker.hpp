// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a decorator of a wire learns what the wire is used for: its communicator knows the operation and the round.
#pragma once

#include <kolo/transport/communicator.hpp>

namespace kolo::inline v0::detail {

/// A base of decorators. It lies in the communicator that it watches, so it forgets that when it is moved.
class onlooker {
 public:
  onlooker() = default;
  onlooker(onlooker&&) noexcept {}
  onlooker& operator=(onlooker&&) noexcept { return watch_nothing(); }

  template <Transport T>
  void watch(const engine<T>& e) {
    engine_ = &e;
    look_ = [](const void* watched) {
      const auto& its = *static_cast<const engine<T>*>(watched);
      return its.oldest ? its.oldest->now : situation{.sequence = its.sequence, .round = 0};  // a small call has one round, and is not in the queue
    };
  }

 protected:
  bool is_watching() const { return engine_ != nullptr; }
  /// What runs now: with sequence 0 and round -1 where nobody is watched.
  situation running() const { return engine_ ? look_(engine_) : situation{}; }

 private:
  onlooker& watch_nothing() {
    engine_ = nullptr;
    return *this;
  }

  const void* engine_ = nullptr;
  situation (*look_)(const void*) = nullptr;
};

}  // namespace kolo::inline v0::detail
