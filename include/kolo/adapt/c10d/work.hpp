// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call of a process group of PyTorch's, as one waits for it; and the thread that runs the calls of a group in their order.
#pragma once

#include <kolo/config.hpp>

#include <torch/csrc/distributed/c10d/Work.hpp>

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

/// What c10d calls a Work, of which somebody calls `run` once. It keeps the tensors alive that it writes.
class work : public ::c10d::Work {
 public:
  /// `results`: empty, or the tensors that the call writes; lists of them where it writes several lists. `title`: what the profiler shows; null: nothing.
  work(int rank, ::c10d::OpType type, const char* title, const tensors& in, std::vector<tensors> results)
      : Work{rank, type, title, in},
        results_{std::move(results)},
        future_{c10::make_intrusive<c10::ivalue::Future>(type_of(results_))} {}

  tensors result() override { return results_.empty() ? tensors{} : results_.front(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

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
  virtual void call() = 0;
  static c10::TypePtr type_of(const std::vector<tensors>& results) {
    const auto list = c10::ListType::create(c10::TensorType::get());
    return results.size() > 1 ? c10::ListType::create(list) : list;
  }

  std::vector<tensors> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
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

/// A thread that runs works, one after the other, in the order in which they come. Destroying it waits until it has run them all.
class work_queue {
 public:
  work_queue() : shared_{std::make_shared<shared>()}, thread_{[s = shared_] { s->run(); }} {}
  work_queue(const work_queue&) = delete;
  work_queue& operator=(const work_queue&) = delete;
  ~work_queue() {
    shared_->close();
    if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();  // the last to know of it is a callback of a work
    else thread_.join();
  }

  void add(c10::intrusive_ptr<work> next) { shared_->add(std::move(next)); }

 private:
  class shared {
   public:
    void add(c10::intrusive_ptr<work> next) {
      {
        const std::lock_guard lock{mutex_};
        waiting_.push_back(std::move(next));
      }
      changed_.notify_one();
    }
    void close() {
      {
        const std::lock_guard lock{mutex_};
        is_closed_ = true;
      }
      changed_.notify_one();
    }
    void run() {
      for (std::unique_lock lock{mutex_};;) {
        changed_.wait(lock, [&] { return is_closed_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        auto next = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        next->run();
        next.reset();  // before the lock: with it may go what others refer to
        lock.lock();
      }
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<c10::intrusive_ptr<work>> waiting_;
    bool is_closed_ = false;
  };

  std::shared_ptr<shared> shared_;
  std::thread thread_;
};

}  // namespace kolo::inline KOLO_ABI::c10d
