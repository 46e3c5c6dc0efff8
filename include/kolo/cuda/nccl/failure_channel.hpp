// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks over NCCL notify each other of failures: over the host communicator that they were made from, if there is
// one.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/impl/engine.hpp>

#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// Messages between ranks on the host, which NCCL does not have. The members are those of a Transport.
class failure_channel {
 public:
  virtual ~failure_channel() = default;
  virtual const failure* failed() const = 0;
  virtual const failure& fail(const failure&) = 0;
  virtual void relax(backoff&, const wait_context&) = 0;
  virtual void check(backoff&, const wait_context&) = 0;
  virtual placement place() const = 0;
  /// Rank 0's bytes to all ranks; false if there is no host communicator.
  virtual bool broadcast(std::span<char>, std::chrono::nanoseconds timeout) = 0;
  /// The node number of each rank.
  virtual void find_nodes(std::span<int> of_each, std::chrono::nanoseconds timeout) = 0;
  /// Throws `mismatch` unless all ranks make the same call; compares nothing without a host communicator.
  virtual void compare(const char* call, const execute::call_signature& mine, std::chrono::nanoseconds timeout) = 0;
  /// Null if there is no host communicator.
  virtual std::unique_ptr<failure_channel> split(int color, int key) = 0;
};

/// A communicator of its own over the ranks of the host's, so that either may fail without the other.
template <Transport T>
class host_failure_channel final : public failure_channel {
 public:
  explicit host_failure_channel(communicator<T>&& own) : own_{std::move(own)} {}
  const failure* failed() const override { return own_.transport().failed(); }
  const failure& fail(const failure& f) override { return own_.transport().fail(f); }
  void relax(backoff& p, const wait_context& s) override { own_.transport().relax(p, s); }
  void check(backoff& p, const wait_context& s) override { own_.transport().check(p, s); }
  placement place() const override { return own_.transport().place(); }
  bool broadcast(std::span<char> bytes, std::chrono::nanoseconds timeout) override {
    kolo::broadcast(own_, bytes, 0, within(timeout));
    return true;
  }
  void find_nodes(std::span<int> of_each, std::chrono::nanoseconds timeout) override {
    const int mine[] = {place().node_rank};
    kolo::allgather(own_, mine, of_each, within(timeout));
  }
  void compare(const char* call, const execute::call_signature& mine, std::chrono::nanoseconds timeout) override {
    own_.engine()->compare(call, mine, timeout);
  }
  std::unique_ptr<failure_channel> split(int color, int key) override {
    return std::make_unique<host_failure_channel>(own_.split(color, key));
  }

 private:
  static typename T::options within(std::chrono::nanoseconds timeout) {
    typename T::options o{};
    o.timeout = timeout;
    return o;
  }

  communicator<T> own_;
};

/// Without a host communicator, over a bare ncclComm_t: a rank knows only its own failures; others run into their
/// deadlines.
class local_failure_channel final : public failure_channel {
 public:
  local_failure_channel(int rank, int size) : rank_{rank}, size_{size} {}
  const failure* failed() const override { return first_ ? &*first_ : nullptr; }
  const failure& fail(const failure& f) override {
    if (!first_) first_.emplace(f);
    return *first_;
  }
  void relax(backoff& p, const wait_context& s) override {
    check(p, s);
    std::this_thread::yield();
  }
  void check(backoff& p, const wait_context& s) override {
    if (first_) throw error{*first_};
    if (const auto waited = p.waited(backoff::clock::now()); waited > s.timeout)
      throw error{fail(failure_from(s, errc::timeout, rank_, waited, "what is awaited has not come within the time"))};
  }
  placement place() const override { return {.node_rank = rank_, .node_count = size_}; }  // NCCL does not tell
  bool broadcast(std::span<char>, std::chrono::nanoseconds) override { return false; }
  void find_nodes(std::span<int> of_each, std::chrono::nanoseconds) override {
    std::iota(of_each.begin(), of_each.end(), 0);
  }
  void compare(const char*, const execute::call_signature&, std::chrono::nanoseconds) override {}
  std::unique_ptr<failure_channel> split(int, int) override { return nullptr; }

 private:
  std::optional<failure> first_{};
  int rank_, size_;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda
