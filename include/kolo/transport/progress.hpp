// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operations that a thread has started on any communicator and that have not ended: its waits progress all of them.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/own_process.hpp>
#include <kolo/transport/transport.hpp>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::transport {

/// What happened to the other operations while one was waited for. `none`: there are none, or they have failed.
enum class progress { none, stuck, moved };

class progress_client;

/// The communicators on which one thread has started operations. Its own thread progresses them; another thread takes
/// one over when a call is made there. Virtual so that programs that start none do not compile it.
class progress_engine {
 public:
  virtual ~progress_engine() = default;

  /// Progresses all but `mine`, as far as possible without waiting. Not reentrant.
  virtual progress progress_others(const progress_client* mine) = 0;

  static progress_engine* of_this_thread() { return here_.its; }  ///< null: it has started nothing
  static const void* this_thread() { return &here_; }             ///< identifies it

 protected:
  friend progress_client;

  virtual bool remove(progress_client& it) noexcept = 0;
  virtual void move_to_this_thread(progress_client& it) = 0;

  /// A thread's own progress_engine, and whether the thread has destroyed it.
  struct thread_state {
    progress_engine* its;
    bool is_over;
  };
  static constinit inline thread_local thread_state here_{nullptr, false};

  std::atomic<int> in_flight_{0};  ///< communicators of the list that have operations under way
};

/// The operations of one communicator, which another communicator's wait may progress. It stays in the list of the
/// thread that last started an operation even after all have ended, so that starting again costs nothing. Every call
/// first calls `take_over`: from then on no other thread progresses it.
class progress_client {
 public:
  using progress_fn = progress (*)(progress_client&) noexcept;

  progress_client(const progress_client&) = delete;
  progress_client& operator=(const progress_client&) = delete;

  const core::own_process process{};  ///< in a copy by fork, the holder of a mutex may not be there

  void take_over() {
    if (in_ && in_.get() != progress_engine::of_this_thread()) [[unlikely]]
      in_->move_to_this_thread(*this);
  }
  /// Called before this thread starts an operation, which `f` progresses.
  template <class Used = void>
  void join(progress_fn f);
  /// An operation was started, and progresses in other waits until `ends`.
  void begins() {
    if (in_ && !std::exchange(is_in_flight_, true)) in_->in_flight_.fetch_add(1, std::memory_order_relaxed);
  }
  void ends() {
    if (is_in_flight_) [[unlikely]]
      end();
  }

 protected:
  progress_client() = default;
  ~progress_client() { leave(); }

  /// Called before this object is destroyed. Returns whether operations were in flight.
  bool leave() noexcept { return in_ && process.is_this() && in_->remove(*this); }

 private:
  template <class Used>
  friend class progress_list;

  void end() {
    is_in_flight_ = false;
    in_->in_flight_.fetch_sub(1, std::memory_order_relaxed);
  }

  progress_fn progress_ = nullptr;
  std::shared_ptr<progress_engine> in_{};
  progress_client *before_ = nullptr, *after_ = nullptr;
  bool is_in_flight_ = false;
};

/// Its only model. `Used`: only programs that start operations instantiate it.
template <class Used = void>
class progress_list final : public progress_engine {
 public:
  /// This thread's; null when the thread is about to end.
  static std::shared_ptr<progress_engine> own() {
    if (here_.is_over) return nullptr;
    [[maybe_unused]] static const int known =
        ::pthread_atfork(nullptr, nullptr, [] { here_.its = nullptr; });  // a child has started nothing
    thread_local owner mine;
    if (!here_.its) here_.its = (mine.own = core::shared<progress_list>()).get();
    return mine.own;
  }

  progress progress_others(const progress_client* mine) override {
    const int own = mine && mine->is_in_flight_ ? 1 : 0;
    if (is_progressing_ || in_flight_.load(std::memory_order_relaxed) <= own) return progress::none;
    const std::lock_guard lock{mutex_};
    is_progressing_ = true;
    auto result = progress::none;
    for (progress_client* d = first_; d; d = next_) {
      next_ = d->after_;
      if (d != mine && d->is_in_flight_) result = std::max(result, d->progress_(*d));
    }
    is_progressing_ = false;
    return result;
  }

  void insert(progress_client& it) {
    const std::lock_guard lock{mutex_};
    it.before_ = nullptr;
    it.after_ = std::exchange(first_, &it);
    if (it.after_) it.after_->before_ = &it;
  }
  bool remove(progress_client& it) noexcept override {
    const auto self = it.in_;
    const std::lock_guard lock{mutex_};  // whose thread may be driving this one, and look at `in_`
    it.in_ = nullptr;
    if (next_ == &it) next_ = it.after_;
    (it.before_ ? it.before_->after_ : first_) = it.after_;
    if (it.after_) it.after_->before_ = it.before_;
    if (it.is_in_flight_) in_flight_.fetch_sub(1, std::memory_order_relaxed);
    return std::exchange(it.is_in_flight_, false);
  }
  void move_to_this_thread(progress_client& it) override {
    if (!it.leave()) return;
    it.join(it.progress_);
    it.begins();
  }

 private:
  struct owner {
    std::shared_ptr<progress_engine> own{};
    ~owner() { here_ = {nullptr, true}; }
  };

  std::recursive_mutex mutex_{};  ///< of the list; progress may start an operation, so its thread may lock twice
  progress_client *first_ = nullptr, *next_ = nullptr;  ///< next_: the next one for `progress_others`
  bool is_progressing_ = false;                         ///< on its own thread
};

template <class Used>
void progress_client::join(progress_fn f) {
  take_over();
  progress_ = f;
  if (!in_ && (in_ = progress_list<Used>::own())) static_cast<progress_list<Used>&>(*in_).insert(*this);
}

/// Progresses all operations that this thread has started, except on `mine`.
inline progress progress_others(const progress_client* mine) {
  auto* const its = progress_engine::of_this_thread();
  return its ? its->progress_others(mine) : progress::none;
}

/// How long a thread may sleep before it polls again, after progressing its operations: `usual` if it has none.
constexpr std::chrono::milliseconds pause_between(progress others, std::chrono::milliseconds usual) {
  if (others == progress::none) return usual;
  return std::chrono::milliseconds{others == progress::moved ? 0 : 1};
}

/// Called after a fruitless poll wherever a thread waits for other ranks: for an operation on `mine`, or for none that
/// was started.
void relax(auto& transport, backoff& p, const wait_context& s, const progress_client* mine = nullptr) {
  static constexpr std::chrono::microseconds shortest{50};
  switch (progress_others(mine)) {
    case progress::none: p.nap = p.nap.zero(); return transport.relax(p, s);
    case progress::stuck: p.nap = std::max(p.nap, shortest); return transport.relax(p, s);
    case progress::moved: break;
  }
  p.polls = 0;  // more may be there at once
  p.nap = shortest;
  transport.check(p, s);
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
namespace kolo::inline KOLO_ABI {
using detail::transport::relax;  // for transports, wherever they wait
}  // namespace kolo::inline KOLO_ABI
