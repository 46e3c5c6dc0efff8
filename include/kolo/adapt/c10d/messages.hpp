// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tagged messages between two ranks of a process group through torch's store: each is a value there until its receiver
// deletes it.
#pragma once

#include <kolo/adapt/c10d/meeting.hpp>
#include <kolo/adapt/c10d/tensors.hpp>
#include <kolo/adapt/c10d/work.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

/// A pending receive of a tensor from a rank, or from any rank (-1).
class receipt final : public work {
 public:
  receipt(int rank, const char* title, const at::Tensor& t, int source, int tag, milliseconds timeout)
      : work{rank, source < 0 ? ::c10d::OpType::RECVANYSOURCE : ::c10d::OpType::RECV, title, {t}, {{t}}},
        tag{tag},
        until{std::chrono::steady_clock::now() + timeout},
        tensor_{t},
        source_{source} {}

  int sourceRank() const override { return source_; }
  bool is_from(int rank) const { return source_ < 0 || source_ == rank; }
  /// Whether the message has arrived or the receive has failed.
  bool is_decided() const { return is_decided_; }
  void come(int source, std::vector<std::uint8_t> bytes) {
    source_ = source;
    bytes_ = std::move(bytes);
    is_decided_ = true;
  }
  void come_not(std::exception_ptr why) {
    why_not_ = std::move(why);
    is_decided_ = true;
  }

  const int tag;
  const std::chrono::steady_clock::time_point until;

 private:
  void call() override {
    if (why_not_) std::rethrow_exception(why_not_);
    if (bytes_.size() != tensor_.nbytes())
      refuse("recv", "rank " + std::to_string(source_) + " has sent " + std::to_string(bytes_.size()) +
                         " bytes, and the tensor has " + std::to_string(tensor_.nbytes()));
    on_elements(tensor_, [&](const auto& all) {
      if (!bytes_.empty()) std::memcpy(all.data(), bytes_.data(), bytes_.size());
    });
    bytes_ = {};
  }

  at::Tensor tensor_;
  int source_;
  std::vector<std::uint8_t> bytes_{};
  std::exception_ptr why_not_{};
  bool is_decided_ = false;
};

/// The messages of one rank. Messages between the same two ranks with the same tag arrive in order, at receives in the
/// order in which they were posted. A thread polls the store while receives are pending, until `close`.
class messages : public std::enable_shared_from_this<messages> {
 public:
  messages(c10::intrusive_ptr<::c10d::Store> store, int rank, int size)
      : store_{std::move(store)}, rank_{rank}, size_{size} {}
  void close() {
    {
      const std::lock_guard lock{mutex_};
      is_closed_ = true;
    }
    changed_.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();  // it had the last reference to the group
    else if (thread_.joinable()) thread_.join();
  }

  /// The tensor has been copied to the store when this returns.
  void send(const at::Tensor& t, int to, int tag) {
    const at::Tensor flat = flattened(t);
    const auto* const bytes = static_cast<const std::uint8_t*>(flat.data_ptr());
    const std::lock_guard lock{sending_};
    auto& number = sent_[{to, tag}];
    store_->set(key(rank_, to, tag, number), {bytes, bytes + flat.nbytes()});
    ++number;  // after a failed set, the receiver still waits for this number
  }
  void receive(c10::intrusive_ptr<receipt> one) {
    {
      const std::lock_guard lock{mutex_};
      waiting_.push_back(std::move(one));
      if (!thread_.joinable()) thread_ = std::thread{[self = shared_from_this()] { self->poll(); }};
    }
    changed_.notify_one();
  }

 private:
  using receipts = std::list<c10::intrusive_ptr<receipt>>;
  using clock = std::chrono::steady_clock;

  static std::string key(int from, int to, int tag, std::uint64_t number) {
    return "kolo/message/" + std::to_string(from) + '/' + std::to_string(to) + '/' + std::to_string(tag) + '/' +
           std::to_string(number);
  }

  void poll() {
    auto pause = shortest;
    for (std::unique_lock lock{mutex_};;) {
      changed_.wait(lock, [&] { return is_closed_ || !waiting_.empty(); });
      if (is_closed_) return give_up();
      receipts now = waiting_;
      lock.unlock();
      const bool has_come = take(now);
      lock.lock();
      waiting_.remove_if([](const auto& one) { return one->is_decided(); });
      pause = has_come ? shortest : std::min(2 * pause, longest);
      if (!has_come) changed_.wait_for(lock, pause, [&] { return is_closed_; });
    }
  }
  /// Whether a message has arrived. Another thread completes the receives: callbacks may wait for the next one.
  bool take(const receipts& now) {
    bool has_come = false;
    for (const auto& one : now) {
      try {
        for (int r = 0; r < size_ && !one->is_decided(); ++r)
          if (one->is_from(r) && take(*one, r)) has_come = true;
        if (!one->is_decided() && clock::now() > one->until)
          throw error{errc::timeout, "recv: no message has come in time"};
      } catch (...) {
        one->come_not(std::current_exception());
      }
      if (one->is_decided()) told_.queue()->add(one);
    }
    return has_come;
  }
  bool take(receipt& one, int from) {
    auto& number = taken_[{from, one.tag}];
    const auto next = key(from, rank_, one.tag, number);
    if (!store_->check({next})) return false;
    auto bytes = store_->get(next);
    ++number;  // after a failed get, the message still waits under this number
    store_->deleteKey(next);
    one.come(from, std::move(bytes));
    return true;
  }
  void give_up() {
    for (const auto& one : waiting_) {
      one->come_not(std::make_exception_ptr(error{errc::peer_left, "recv: the process group has been destroyed"}));
      told_.queue()->add(one);
    }
  }

  static constexpr std::chrono::microseconds shortest{50}, longest{2000};
  c10::intrusive_ptr<::c10d::Store> store_;
  int rank_, size_;
  std::map<std::pair<int, int>, std::uint64_t> sent_{}, taken_{};  ///< counts by peer and tag
  std::mutex mutex_{}, sending_{};
  std::condition_variable changed_{};
  receipts waiting_{};
  bool is_closed_ = false;
  works told_{};
  std::thread thread_{};
};

}  // namespace kolo::inline KOLO_ABI::c10d
