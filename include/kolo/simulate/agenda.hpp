// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What happens next: messages that reach a card, and ranks that can go on, in the order of their times.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

namespace kolo::inline v0::simulate::detail {

/// The earliest comes first; at one moment messages before ranks, messages as they were sent, and ranks by number.
class agenda {
 public:
  struct event {
    double at;
    int rank;             ///< who goes on, or to whom the message comes
    bool is_message;
    std::uint64_t number; ///< of the message, among all messages
    void* message;        ///< the caller's

    friend bool operator<(const event& a, const event& b) {  // the largest is the top of a queue
      return std::tuple{a.at, !a.is_message, a.is_message ? a.number : 0, a.rank} > std::tuple{b.at, !b.is_message, b.is_message ? b.number : 0, b.rank};
    }
  };

  void add_rank(int r, double at) { queue_.push({at, r, false, 0, nullptr}); }
  void add_message(int to, double at, void* message) { queue_.push({at, to, true, messages_++, message}); }
  bool empty() const { return queue_.empty(); }
  const event& next() const { return queue_.top(); }
  event pop() {
    const event e = queue_.top();
    queue_.pop();
    return e;
  }

 private:
  std::priority_queue<event> queue_{};
  std::uint64_t messages_ = 0;
};

}  // namespace kolo::inline v0::simulate::detail
