// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One-way pieces through one slot: stores past the caches are counted, and what a reader sees is checked.
// To be included first, since it redefines intrinsics.
#pragma once

/// Stores past the caches: those that no fence has ordered yet, and all.
inline thread_local int unordered_stores = 0, stores_past_cache = 0;

#if defined(__SSE2__)
#include <emmintrin.h>
#define _mm_stream_si128(to, value) (++unordered_stores, ++stores_past_cache, _mm_stream_si128(to, value))
#define _mm_sfence() (unordered_stores = 0, _mm_sfence())
#endif

#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/permute.hpp>
#include <kolo/execute/executor.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "support/refers_to_nothing.hpp"

/// Binds this thread to the n-th of the processors on which it may run, modulo their number.
inline void run_on_processor(int n) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int i = n % CPU_COUNT(&allowed), cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || i-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/// Is every store past the caches ordered when a piece of `bytes` has been copied into its slot? The answer is the same on every processor.
inline bool leaves_in_order(std::size_t bytes) {
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> slot(bytes);
  kolo::detail::execute::host_executor::copy_one_way(slot.data(), from.data(), bytes, true);
  return unordered_stores == 0 && slot == from;
}

/// Does a reader that has seen the number of a piece always see all of its `bytes`? It begins with those that were written last, and runs on another processor
/// than the writer, if there is one: on the writer's own nothing can be seen too early, and between two threads of one core rarely.
inline bool arrives_whole(std::size_t bytes, int times) {
  constexpr std::size_t head = 32;  // as in a slot: the payload begins within a line
  std::vector<std::byte> slot(head + bytes), from(bytes);
  alignas(128) std::atomic<int> sent{0};
  alignas(128) std::atomic<int> released{0};
  std::atomic<bool> is_whole{true};
  const auto until = [](const std::atomic<int>& number, int n) {
    while (number.load(std::memory_order_acquire) != n) std::this_thread::yield();
  };
  std::thread reader{[&] {
    run_on_processor(1);
    for (int i = 1; i <= times; ++i) {
      until(sent, i);
      for (std::size_t k = bytes; k-- > 0;)
        if (slot[head + k] != static_cast<std::byte>(i)) is_whole = false;
      released.store(i, std::memory_order_release);
    }
  }};
  std::thread writer{[&] {
    run_on_processor(0);
    for (int i = 1; i <= times; ++i) {
      std::fill(from.begin(), from.end(), static_cast<std::byte>(i));
      until(released, i - 1);
      kolo::detail::execute::host_executor::copy_one_way(slot.data() + head, from.data(), bytes, true);
      sent.store(i, std::memory_order_release);
    }
  }};
  writer.join();
  reader.join();
  return is_whole;
}

/// Do two ranks that exchange `bytes` through their slots get them, and bypass the caches exactly if these do not hold both what is sent and what is received?
/// Also true if there are no such stores.
inline bool goes_past_caches_that_do_not_hold_it(std::size_t bytes) {
  std::atomic<bool> is_right{true};
  kolo::threads::run(2, [&](auto& host) {
    kolo::communicator<refers_to_nothing> comm{refers_to_nothing{host.transport().split(0, host.rank())}};
    const std::vector<char> mine(bytes, static_cast<char>(comm.rank() + 1));
    std::vector<char> theirs(bytes);
    stores_past_cache = 0;
    kolo::shift(comm, mine, theirs, 1);
    if (theirs.front() != 2 - comm.rank() || theirs.back() != theirs.front()) is_right = false;
#if defined(__SSE2__)
    if ((stores_past_cache > 0) != (2 * bytes >= kolo::detail::core::largest_cache_bytes())) is_right = false;
#endif
  });
  return is_right;
}

/// A transport of threads, compiled here and not in the library, so that its stores are counted.
struct counts_stores : kolo::threads::transport {
  using kolo::threads::transport::slot_transport;
  explicit counts_stores(kolo::threads::transport&& t) : slot_transport{std::move(t)} {}
  counts_stores split(int color, int key) { return counts_stores{slot_transport::split(color, key)}; }
};

/// Of two ranks that sum vectors of `bytes` which they address, does each try to store its replies past the caches, if they go elsewhere than to where it has
/// read the operand, and does it order them before it ends?
inline bool replies_leave_in_order(std::size_t bytes) {
  std::atomic<bool> is_right{true};
  kolo::threads::run(2, [&](auto& host) {
    kolo::communicator<counts_stores> comm{counts_stores{host.transport().split(0, host.rank())}};
    std::vector<int> in(bytes / sizeof(int), comm.rank() + 1), out(in.size());
    stores_past_cache = 0;
    std::vector<int> both = in;
    kolo::allreduce(comm, both, kolo::sum);
    if (both.front() != 3 || both.back() != 3 || stores_past_cache != 0) is_right = false;
    kolo::allreduce(comm, in, out, kolo::sum);
    if (out.front() != 3 || out.back() != 3 || unordered_stores != 0) is_right = false;
#if defined(__SSE2__)
    if (stores_past_cache == 0) is_right = false;
#endif
  });
  return is_right;
}
