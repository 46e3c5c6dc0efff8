// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A queue of events in the order of their times: messages that reach a card, and ranks that can continue.
#pragma once

#include <kolo/config.hpp>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::simulate {

/// The earliest is first; at equal times messages before ranks, messages in the order of sending, and ranks by number.
class event_queue {
 public:
  struct event {
    double at;
    int rank;  ///< the rank that continues, or that receives the message
    bool is_message;
    std::uint64_t number;  ///< of the message, in the order of sending
    void* message;         ///< belongs to the caller

    friend bool operator<(const event& a, const event& b) {  // the largest is the top of a queue
      return std::tuple{a.at, !a.is_message, a.is_message ? a.number : 0, a.rank} >
             std::tuple{b.at, !b.is_message, b.is_message ? b.number : 0, b.rank};
    }
  };

  void add_rank(int r, double at) { add({at, r, false, 0, nullptr}); }
  void add_message(int to, double at, void* message) { add({at, to, true, messages_++, message}); }
  bool empty() const { return heap_.empty(); }
  const event& next() const { return heap_.front(); }
  event pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    const event e = heap_.back();
    heap_.pop_back();
    return e;
  }

 private:
  void add(const event& e) {
    heap_.push_back(e);
    std::push_heap(heap_.begin(), heap_.end());
  }

  std::vector<event> heap_{};
  std::uint64_t messages_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::simulate
