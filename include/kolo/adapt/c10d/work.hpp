// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call of a process group of PyTorch's, as one waits for it; and the thread that runs a group's calls in their order.
#pragma once

#include <kolo/config.hpp>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

using tensors = std::vector<at::Tensor>;

class work;

/// Works that are run one after the other, in the order in which they come: by a thread, or by whoever would only wait
/// for one of them.
class work_queue : public std::enable_shared_from_this<work_queue> {
 public:
  void add(c10::intrusive_ptr<work> next);
  /// Returns when a work that was added has ended.
  void help(work& wanted);
  /// Until it is closed, and all has been run.
  void run() {
    for (std::unique_lock lock{mutex_};;) {
      more_.wait(lock, [&] { return !is_busy_ && (is_closed_ || !waiting_.empty()); });
      if (waiting_.empty()) return;
      run_one(lock);
    }
  }
  void close() {
    const std::lock_guard lock{mutex_};
    is_closed_ = true;
    more_.notify_one();
  }

 private:
  void run_one(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_{};
  std::condition_variable more_{}, ended_{};
  std::deque<c10::intrusive_ptr<work>> waiting_{};
  bool is_busy_ = false, is_closed_ = false;
};

/// A queue, and the thread that runs what is in it. Destroying it waits until all has been run.
class work_thread {
 public:
  work_thread() : thread_{[q = queue_] { q->run(); }} {}
  work_thread(const work_thread&) = delete;
  work_thread& operator=(const work_thread&) = delete;
  ~work_thread() {
    queue_->close();
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();  // a callback of a work was the last to know of it
    else thread_.join();
  }

  const std::shared_ptr<work_queue>& queue() const { return queue_; }

 private:
  std::shared_ptr<work_queue> queue_ = std::make_shared<work_queue>();
  std::thread thread_;
};

/// What c10d calls a Work, of which somebody calls `run` once. It keeps the tensors alive that it writes.
class work : public ::c10d::Work {
 public:
  /// `results`: empty, or the tensors that the call writes; lists of them where it writes several lists. `title`: what
  /// the profiler shows; null: nothing.
  work(int rank, ::c10d::OpType type, const char* title, const tensors& in, std::vector<tensors> results)
      : Work{rank, type, title, in},
        results_{std::move(results)},
        future_{c10::make_intrusive<c10::ivalue::Future>(type_of(results_))} {}

  tensors result() override { return results_.empty() ? tensors{} : results_.front(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  /// Whoever waits without a limit of its own runs what is to be run: it saves the way to the thread.
  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout == kNoTimeout)
      if (const auto queue = queue_.lock()) queue->help(*this);
    return Work::wait(timeout);
  }

  /// Errors: what the call throws is what `wait` throws, and the future.
  void run() {
    std::exception_ptr thrown;
    try {
      const at::NoGradGuard no_graph;
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
    end(thrown);
  }
  void end(const std::exception_ptr& thrown) {
    if (thrown) future_->setError(thrown);
    else if (results_.size() > 1) future_->markCompleted(results_);
    else future_->markCompleted(result());
    finish(thrown);
  }

 private:
  friend class work_queue;
  virtual void call() = 0;
  static c10::TypePtr type_of(const std::vector<tensors>& results) {
    const auto list = c10::ListType::create(c10::TensorType::get());
    return results.size() > 1 ? c10::ListType::create(list) : list;
  }

  std::vector<tensors> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::weak_ptr<work_queue> queue_{};  ///< in which it stands
};

/// A work that calls f().
template <class F>
class work_of final : public work {
 public:
  template <class... Args>
  explicit work_of(F f, Args&&... args) : work{std::forward<Args>(args)...}, f_{std::move(f)} {}

 private:
  void call() override { f_(); }
  F f_;
};

inline void work_queue::add(c10::intrusive_ptr<work> next) {
  next->queue_ = weak_from_this();
  {
    const std::lock_guard lock{mutex_};
    waiting_.push_back(std::move(next));
  }
  more_.notify_one();
}

inline void work_queue::help(work& wanted) {
  for (std::unique_lock lock{mutex_}; !wanted.isCompleted();) {
    if (is_busy_) ended_.wait(lock);
    else run_one(lock);
  }
}

inline void work_queue::run_one(std::unique_lock<std::mutex>& lock) {
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  is_busy_ = true;
  lock.unlock();
  next->run();
  next.reset();  // before the lock: with it may go what others refer to
  lock.lock();
  is_busy_ = false;
  ended_.notify_all();
  if (is_closed_ || !waiting_.empty()) more_.notify_one();
}

}  // namespace kolo::inline KOLO_ABI::c10d
