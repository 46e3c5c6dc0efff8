// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that is stopped in the middle of a piece, and continues after the others have timed out: each function returns what is wrong then.
#pragma once

#include <algorithm>
#include <atomic>
#include <latch>

#include "processes/what_ranks_say.hpp"

namespace testing {

using namespace std::chrono_literals;

struct stop {
  std::atomic<pid_t> process{0};
  std::atomic<bool> has_ended{false};
};

/// Adds, and stops its process once after `left` elements; 0: never.
struct stopping_sum {
  static inline int left = 0;
  stop* at;
  int operator()(int a, int b) const {
    if (left > 0 && --left == 0) {
      at->process = ::getpid();
      ::raise(SIGSTOP);
    }
    return a + b;
  }
};

/// Shared memory; a process that sets `at` is stopped when it is about to write a reply into the peer's buffer.
class stopping_at_a_reply : public kolo::shm::transport {
 public:
  explicit stopping_at_a_reply(kolo::shm::transport&& t) : slot_transport{std::move(t)} {}
  static inline stop* at = nullptr;

  kolo::received_slot claim(int peer) {
    const auto slot = peek(peer);
    const auto piece = slot_transport::claim(peer);
    if (at && !page && piece.back && piece.back != slot.back) {
      page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(piece.back) / page_size * page_size);
      ::mprotect(page, page_size, PROT_READ);
      ::signal(SIGSEGV, [](int) {
        ::mprotect(page, page_size, PROT_READ | PROT_WRITE);
        at->process = ::getpid();
        ::raise(SIGSTOP);
      });
    }
    return piece;
  }
  stopping_at_a_reply split(int color, int key) { return stopping_at_a_reply{slot_transport::split(color, key)}; }
  stopping_at_a_reply shrink(std::chrono::nanoseconds timeout) {
    return stopping_at_a_reply{slot_transport::shrink(timeout)};
  }

 private:
  static inline void* page = nullptr;
  static inline const std::size_t page_size = kolo::detail::shm::page_size();
};

/// The call of the stopped rank; "" if it failed with any error.
template <class F>
std::string stopped_call(stop& at, F call) {
  const auto end = end_of(call);
  at.has_ended = true;
  return end == "fine" ? "a revoked piece was used" : "";
}
/// Continues the stopped process, repeatedly, until its call has ended.
inline void wake(stop& at) {
  for (; !at.has_ended; ::sched_yield())
    if (at.process != 0) ::kill(at.process, SIGCONT);
}
struct wakes_at_the_end {
  stop* at;
  ~wakes_at_the_end() {
    if (at) wake(*at);
  }
};

/// The concatenated results; "" if all are "".
inline std::string together(const std::vector<std::string>& said) {
  std::string all;
  for (const auto& words : said) all += words;
  return all;
}

/// In memory from `make(comm, n)`, all ranks but the last time out, continue without it, and use the memory again unless it is reported as in use; then the
/// last rank continues. Repeated if the busy machine makes the last rank late before it is stopped: that may happen once, but not three times.
template <class Make>
std::string survivors_use_their_memory_again(int p, bool is_in_use, Make make, int tries = 3) {
  constexpr int n = 50'000;
  common<stop> at;
  const auto end = on_processes(p, [&](auto& whole) -> std::string {
    kolo::communicator<stopping_at_a_reply> comm{std::move(whole.transport())};
    auto x = make(comm, n);
    std::fill(x.begin(), x.end(), 1);
    const auto call = [&] { kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{}, {.timeout = 1s}); };
    kolo::barrier(comm);
    if (comm.rank() == p - 1) return stopping_at_a_reply::at = &*at, stopped_call(*at, call);
    const wakes_at_the_end also_of_an_error{comm.rank() == 0 ? &*at : nullptr};
    try {
      call();
      return "the call ended well";
    } catch (const kolo::error& e) {
      if (at->process == 0) return "not stopped yet";
      const std::string words = e.what();
      if (e.code() != kolo::errc::timeout) return words;
      if ((e.buffers_in_use() > 0) != is_in_use || (comm.buffers_in_use() > 0) != is_in_use)
        return "in use: " + std::to_string(e.buffers_in_use());
      if ((words.find("do not use or free them") != words.npos) != is_in_use) return words;
    }
    auto rest = comm.shrink({.timeout = 1s});
    if (rest.size() != p - 1 || (rest.buffers_in_use() > 0) != is_in_use)
      return "the buffers in use are not passed on to the new communicator";
    if (!is_in_use) {
      std::fill(x.begin(), x.end(), 10);
      kolo::allreduce(rest, x, kolo::sum, {.timeout = 10s});
    }
    kolo::barrier(rest);
    if (rest.rank() == 0) wake(*at);
    kolo::barrier(rest);
    if (rest.buffers_in_use() > 0) return "still in use";
    if (!is_in_use && std::count(x.begin(), x.end(), 10 * (p - 1)) != n) return "the late rank wrote to it";
    kolo::allreduce(rest, x, kolo::max);
    return "";
  });
  const auto said = together(end.said) + (end.clean ? "" : "something is left");
  if (tries == 1 || said.find("not stopped yet") == said.npos) return said;
  return survivors_use_their_memory_again(p, is_in_use, make, tries - 1);
}

inline std::string heap_is_not_written() {
  return survivors_use_their_memory_again(3, false, [](auto& comm, std::size_t n) {
    return std::vector<int, kolo::shm::allocator<int>>(n, 0, kolo::shm::allocator<int>{comm});
  });
}
inline std::string symmetric_memory_is_said_to_be_in_use() {
  return survivors_use_their_memory_again(3, true,
                                          [](auto& comm, std::size_t n) { return kolo::symmetric<int>(comm, n); });
}

/// Rank 1 has received all it waits for, and is stopped while it reads the last of it from rank 0's memory.
inline std::string changed_operands_are_noticed() {
  common<stop> at;
  const auto end = on_processes(2, [&](auto& comm) -> std::string {
    constexpr int n = 50'000;
    std::vector<int, kolo::shm::allocator<int>> x(n, 1, kolo::shm::allocator<int>{comm}), y(n);
    const auto call = [&] {  // rank 1 sends nothing, so it waits for no reply
      kolo::reduce(comm, x, y, stopping_sum{&*at}, 1, kolo::one_shot{}, {.timeout = 1s});
    };
    kolo::barrier(comm);
    if (comm.rank() == 1) return stopping_sum::left = n - 1000, stopped_call(*at, call);
    const auto said = end_of(call);
    std::fill(x.begin(), x.end(), 1000);
    wake(*at);
    return said == "timeout 1" && comm.buffers_in_use() == 0 ? "" : said;
  });
  return together(end.said);
}

/// Rank 1, a thread, stays for more than a second in an operator that reads rank 0's memory, after rank 0 has timed out.
inline std::string threads_are_waited_for() {
  std::atomic<bool> has_ended{false};
  return together(on_threads(2, [&](auto& comm) -> std::string {
    std::vector<int> x(50'000, 1);
    bool too_early = false, has_stayed = false;
    const auto op = [&](int a, int b) {
      if (comm.rank() == 1 && !std::exchange(has_stayed, true)) {
        while (!comm.transport().failed()) ::sched_yield();
        const auto end = std::chrono::steady_clock::now() + 1200ms;
        while (!has_ended && std::chrono::steady_clock::now() < end) ::usleep(1000);
        too_early = has_ended;
      }
      return a + b;
    };
    const kolo::threads::communicator::options its{.timeout = comm.rank() == 0 ? 50ms : 60s};
    const auto said = end_of([&] { kolo::allreduce(comm, x, op, kolo::two_shot{}, its); });
    if (comm.rank() == 0) has_ended = true;
    return too_early ? "the call returned while its peer still read its memory" : said == "timeout 1" ? "" : said;
  }));
}

/// Rank 0 has claimed rank 1's piece and waits for rank 2; all fail, and no rank waits for a read that rank 0 will not make.
inline std::string who_fails_lets_go() {
  std::latch begun{3}, given_up{2};
  return together(on_threads(3, [&](auto& comm) -> std::string {
    std::vector<int> x(2000, 1), y(6000);
    kolo::barrier(comm);
    begun.arrive_and_wait();
    if (comm.rank() == 2) return given_up.wait(), "";
    const kolo::threads::communicator::options soon{.timeout = 50ms};
    const auto said = end_of([&] {  // the sender runs a stream, the receiver a plan
      if (comm.rank() == 1) kolo::start_gather(comm, x, y, 0, kolo::one_shot{}, soon).wait();
      else kolo::gather(comm, x, y, 0, kolo::one_shot{}, soon);
    });
    given_up.count_down();
    for (const auto end = std::chrono::steady_clock::now() + 10s; !given_up.try_wait(); ::usleep(1000))
      if (std::chrono::steady_clock::now() > end)
        return "its peer waits for a claimed piece";  // until this rank leaves
    return said.starts_with("timeout ") ? "" : said;  // rank 1 only knows that rank 0 is late
  }));
}

}  // namespace testing
