// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that live as long as a scope.
#pragma once

#include <kolo/config.hpp>

#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::core {

/// Its destructor waits for all of them. (libc++ has std::jthread from version 20 on.)
class joined_threads {
 public:
  joined_threads() = default;
  joined_threads(const joined_threads&) = delete;
  joined_threads& operator=(const joined_threads&) = delete;
  ~joined_threads() {
    for (std::thread& t : all_) t.join();
  }

  /// Errors: std::system_error if no more threads can be started.
  template <class F, class... A>
  void start(F f, A... a) {
    all_.emplace_back(std::move(f), std::move(a)...);
  }
  std::size_t size() const { return all_.size(); }

 private:
  std::vector<std::thread> all_;
};

}  // namespace kolo::inline KOLO_ABI::detail::core
