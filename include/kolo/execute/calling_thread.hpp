// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call at a time runs on a communicator: a second thread's is refused, and so is one that an operator or a view of
// the first makes. Those of a forked child of the rank are refused, too.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/transport/progress.hpp>

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::execute {

inline constexpr std::string_view refused_thread =
    "another thread of this rank calls on the same communicator: use it from one thread at a time, or give each its "
    "own (split)";
inline constexpr std::string_view refused_within =
    "an operator or a view makes a call on the communicator of the call that runs it: give it a communicator of its "
    "own (split)";

inline constexpr std::string_view refused_child =
    "this process was forked from the rank after the communicator was made, and is not the rank: call in the rank, or "
    "make a communicator of its own here";

/// Whether the refusal of a second thread unwinds this thread's stack. It concerns no other rank, so it breaks nothing.
inline bool is_refused_thread() noexcept {
  const auto f = error::in_flight();
  return f && std::string_view{f->text} == refused_thread;
}

/// While it lives, its thread is the caller of a communicator (`engine::caller`), and `engine::begin` refuses calls.
class calling_thread {
 public:
  using caller = std::atomic<const void*>;
  enum class in_turn { yes };

  /// After `engine::begin`.
  explicit calling_thread(caller& its) : caller_{&its} { its.store(id(), std::memory_order_relaxed); }
  /// For a destructor, which cannot be refused: waits for another thread's call to end. The next call of that thread
  /// then waits for the destructor.
  calling_thread(caller& its, in_turn) : caller_{&its} {
    const auto acquire = std::memory_order_acquire;
    for (const void* now = nullptr; !its.compare_exchange_strong(now, id_in_destructor(), acquire, acquire);
         now = nullptr) {
      if (is_own(now)) {  // within a call of this thread, which ends later
        caller_ = nullptr;
        return;
      }
      wait_a_little();
    }
  }
  calling_thread(const calling_thread&) = delete;
  calling_thread& operator=(const calling_thread&) = delete;
  ~calling_thread() {
    if (caller_) caller_->store(nullptr, std::memory_order_release);
  }

  static const void* id() { return transport::progress_engine::this_thread(); }
  static bool is_another(const caller& its) {
    const void* const now = its.load(std::memory_order_relaxed);
    return now && !is_own(now);
  }
  static bool is_own(const void* caller) { return caller == id() || caller == id_in_destructor(); }
  /// Waits while a destructor of another thread has its turn. Returns the thread whose call runs; null: none.
  [[gnu::cold, gnu::noinline]] static const void* after_destructors(const caller& its) {
    const void* now = its.load(std::memory_order_acquire);
    for (; is_in_destructor(now) && !is_own(now); now = its.load(std::memory_order_acquire)) wait_a_little();
    return now;
  }

 private:
  /// Of an address that is even.
  static const void* id_in_destructor() { return static_cast<const char*>(id()) + 1; }
  static bool is_in_destructor(const void* caller) { return (reinterpret_cast<std::uintptr_t>(caller) & 1) != 0; }
  static void wait_a_little() {
    if (transport::progress_others(nullptr) != transport::progress::moved) ::sched_yield();
  }

  caller* caller_;
};

/// The same, and begins the call. `call`: its name, a string that is never freed.
template <class Engine>
struct whole_call : calling_thread {
  whole_call(Engine& e, const char* call) : calling_thread{(e.begin(call), e.caller)} {}
};
/// See `engine::begin_alone`.
template <class Engine>
struct transport_call : whole_call<Engine> {
  transport_call(Engine& e, const char* call) : whole_call<Engine>{e, call} { e.finish_all(); }
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
