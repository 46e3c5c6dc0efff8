// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call of a PyTorch process group as c10d's Work, and the queue whose threads run a group's calls in order.
#pragma once

#include <kolo/config.hpp>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

using tensors = std::vector<at::Tensor>;

class work;

/// Runs works one after the other, in order: on a thread of the queue, or on a caller that would only wait for one of
/// them. The thread that has run a work completes its future while another thread runs the next one, so a callback may
/// wait for later works. This takes one thread more than there are waiting callbacks.
class work_queue : public std::enable_shared_from_this<work_queue> {
 public:
  work_queue() = default;
  work_queue(const work_queue&) = delete;
  work_queue& operator=(const work_queue&) = delete;
  /// Threads that were started after `close` end by themselves.
  ~work_queue() {
    for (auto& one : threads_) one.detach();
  }
  void add(c10::intrusive_ptr<work> next) {
    std::unique_lock lock{mutex_};
    waiting_.push_back(std::move(next));
    if (!is_busy_) find_runner();
  }
  /// Runs works, or waits while another thread runs one, until `wanted`, which was added, has begun.
  void help(const work& wanted);
  /// Waits until all works have run, and all callbacks have returned, except the callback that calls this.
  void close() {
    std::unique_lock lock{mutex_};
    is_closed_ = true;
    more_.notify_all();
    while (!threads_.empty()) {
      std::thread one = std::move(threads_.back());
      threads_.pop_back();
      lock.unlock();
      if (one.get_id() == std::this_thread::get_id()) one.detach();  // a callback had the last reference to the queue
      else one.join();
      lock.lock();
    }
  }

 private:
  /// Wakes or starts a thread that runs the waiting works. Under the lock.
  void find_runner() {
    if (idle_ > 0) more_.notify_one();
    else threads_.emplace_back([self = shared_from_this()] { self->run(); });
  }
  void run() {
    for (std::unique_lock lock{mutex_};;) {
      ++idle_;
      more_.wait(lock, [&] { return !is_busy_ && (is_closed_ || !waiting_.empty()); });
      --idle_;
      if (waiting_.empty()) return;
      run_one(lock);
    }
  }
  void run_one(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_{};
  std::condition_variable more_{}, free_{};
  std::deque<c10::intrusive_ptr<work>> waiting_{};
  std::vector<std::thread> threads_{};
  int idle_ = 0;
  bool is_busy_ = false, is_closed_ = false;
};

/// Owns a queue; the destructor closes it.
class works {
 public:
  works() = default;
  works(const works&) = delete;
  works& operator=(const works&) = delete;
  ~works() { queue_->close(); }

  const std::shared_ptr<work_queue>& queue() const { return queue_; }

 private:
  std::shared_ptr<work_queue> queue_ = std::make_shared<work_queue>();
};

/// c10d's Work, of which `run` or a queue makes the call once. It keeps the tensors alive that the call writes.
class work : public ::c10d::Work {
 public:
  /// `results`: empty, or the tensors that the call writes, as one list or several. `title`: its name in the profiler;
  /// null: none.
  work(int rank, ::c10d::OpType type, const char* title, const tensors& in, std::vector<tensors> results)
      : Work{rank, type, title, in},
        results_{std::move(results)},
        future_{c10::make_intrusive<c10::ivalue::Future>(type_of(results_))} {}

  tensors result() override { return results_.empty() ? tensors{} : results_.front(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  /// Sets the queue that runs this. A caller that waits without a time limit runs the queue's works itself, which saves
  /// the handover to the thread.
  void stands_in(const std::shared_ptr<work_queue>& queue) { queue_ = queue; }
  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout == kNoTimeout)
      if (const auto queue = queue_.lock()) queue->help(*this);
    return Work::wait(timeout);
  }

  /// Errors: what the call throws is rethrown by `wait`, and set as the error of the future.
  void run() { end(thrown_by_call()); }
  void end(const std::exception_ptr& thrown) {
    if (thrown) future_->setError(thrown);
    else if (results_.size() > 1) future_->markCompleted(results_);
    else future_->markCompleted(result());
    finish(thrown);
  }

 private:
  friend class work_queue;
  virtual void call() = 0;
  std::exception_ptr thrown_by_call() {
    try {
      const at::NoGradGuard no_graph;
      call();
      return {};
    } catch (...) {
      return std::current_exception();
    }
  }
  static c10::TypePtr type_of(const std::vector<tensors>& results) {
    const auto list = c10::ListType::create(c10::TensorType::get());
    return results.size() > 1 ? c10::ListType::create(list) : list;
  }

  std::vector<tensors> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::weak_ptr<work_queue> queue_{};
  bool has_begun_ = false;  ///< guarded by the queue's lock
};

/// A work that calls f() and then destroys it, which releases the communicator and the tensors.
template <class F>
class work_of final : public work {
 public:
  template <class... Args>
  explicit work_of(F f, Args&&... args) : work{std::forward<Args>(args)...}, f_{std::move(f)} {}

 private:
  void call() override {
    F f = std::move(*f_);
    f_.reset();
    f();
  }
  std::optional<F> f_;
};

inline void work_queue::help(const work& wanted) {
  for (std::unique_lock lock{mutex_}; !wanted.has_begun_;) {
    if (is_busy_) free_.wait(lock);
    else run_one(lock);
  }
}

inline void work_queue::run_one(std::unique_lock<std::mutex>& lock) {
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  next->has_begun_ = is_busy_ = true;
  lock.unlock();
  const auto thrown = next->thrown_by_call();
  lock.lock();
  is_busy_ = false;
  free_.notify_all();
  if (!waiting_.empty()) find_runner();
  else if (is_closed_) more_.notify_all();
  lock.unlock();
  next->end(thrown);
  next.reset();  // without the lock: it may own the last reference to other objects
  lock.lock();
}

}  // namespace kolo::inline KOLO_ABI::c10d
