// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of the fake CUDA runtime: streams, events, and device memory.
#pragma once

#include "fake_cuda/common.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

// Operations run as late as CUDA allows: an operation on a stream runs when a call waits for it, or one at a time when a call queries it. So a missing
// synchronisation shows as bytes that are not there yet. Device memory is accessible only while such operations run.
namespace cuda_double {

/// Thrown by an operation that must wait for another stream or process.
struct not_yet {};

/// What a stream captures: each node enqueues itself on a stream when the graph is launched.
struct graph_state {
  std::vector<std::function<void(cudaStream_t)>> nodes;
  bool is_valid = true, is_relaxed = false;
};
struct stream_state {
  std::deque<std::function<void()>> work;
  std::uint64_t put = 0, done = 0;  ///< operations
  bool is_stuck = false;            ///< a query does not advance it
  int device = 0;
  std::shared_ptr<graph_state> capture;  ///< null: enqueued operations run
};
struct event_state {
  std::shared_ptr<stream_state> stream{};  ///< null: never recorded
  std::uint64_t after = 0;                 ///< it has passed when the stream has done this many operations
  int device = 0;
  shared_point* shared = nullptr;  ///< set if it is interprocess
  std::uint64_t number = 0;        ///< the number of this process's last recording
  bool is_imported = false;
};
struct allocation {
  std::size_t bytes;
  int device;
  cudaMemoryType type;
  std::uint64_t at = 0;      ///< in the file that processes share
  std::uint32_t number = 0;  ///< unique among all allocations ever made
  bool is_of_a_pool = false;
};
/// Memory of another process, mapped here for one device.
struct window {
  std::size_t bytes;
  std::uint32_t number;
  int openings, device;
};
inline thread_local int device_of_thread = 0;
/// By name. Each device has a default stream, whose name is null.
struct all_streams : std::map<cudaStream_t, std::shared_ptr<stream_state>> {
  std::shared_ptr<stream_state>& at(cudaStream_t name) {
    if (name) return map::at(name);
    auto& s = (*this)[reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(device_of_thread) + 1)];
    if (!s) s = std::make_shared<stream_state>();
    s->device = device_of_thread;
    return s;
  }
};

/// The whole state, behind one lock.
struct machine {
  static constexpr std::size_t arena_bytes = std::size_t{1} << 28;
  std::recursive_mutex lock;
  int devices = 1;
  bool devices_are_apart = false;         ///< no device can access another's memory
  std::set<std::pair<int, int>> reached;  ///< (a, b): a has access to b's memory
  bool takes_all_memory = false;  ///< host memory counts as device memory, for tests that were written for host memory
  std::map<const std::byte*, allocation> memory;
  all_streams streams;
  std::map<cudaEvent_t, event_state> events;
  std::byte* arena = nullptr;
  std::size_t used = 0, launches = 0, copies = 0, staged = 0, waits = 0, pinned_blocks = 0, frees = 0;
  std::atomic<int> questions = 0;       ///< queries of devices and of peer access
  std::size_t spinning = 0, moved = 0;  ///< kernels that wait for others, and the phases they have run
  std::uintptr_t names = 1;
  int open = 0;
  common_ground* common = nullptr;  ///< null: one process
  ::pid_t process = ::getpid();
  std::map<std::byte*, window> windows;
  std::function<void()> before_opening;           ///< called before memory of another process is opened
  std::map<shared_point*, event_state> recorded;  ///< the last recording by this process

  machine() {
    arena = static_cast<std::byte*>(
        ::mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  machine(const machine&) = delete;
  ~machine() {  // frees pinned memory that the program has leaked
    for (const auto& [at, a] : memory)
      if (a.type == cudaMemoryTypeHost) std::free(const_cast<std::byte*>(at));
  }
  void protect(int how) const {
    ::mprotect(arena, (used + 4095) / 4096 * 4096, how);
    for (const auto& [at, w] : windows) ::mprotect(at, w.bytes, how);
  }
  /// Device memory is accessible while this object exists.
  struct opened {
    explicit opened(machine& m) : of{m} {
      if (of.open++ == 0) of.protect(PROT_READ | PROT_WRITE);
    }
    opened(const opened&) = delete;
    ~opened() {
      if (--of.open == 0) of.protect(PROT_NONE);
    }
    machine& of;
  };
  std::size_t granule() const { return common ? 4096 : 256; }
  allocation place(std::byte* at, std::size_t bytes, int device) const {
    allocation a{bytes, device, cudaMemoryTypeDevice};
    if (!common) return a;
    const auto room = (bytes + 4095) / 4096 * 4096;
    a.at = common->take_room(room);
    a.number = common->new_allocation();
    if (::mmap(at, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, common->file(),
               static_cast<off_t>(a.at)) == MAP_FAILED)
      std::abort();
    return a;
  }
  /// Memory that another process has open stays until it closes it.
  void give_up(const allocation& a) const {
    if (!common || a.type != cudaMemoryTypeDevice) return;
    auto& known = common->allocation(a.number);
    known.is_freed = true;
    if (known.openings == 0) common->give_up(a.at, (a.bytes + 4095) / 4096 * 4096);
  }

  void record_for_all(cudaStream_t name, event_state& e) {
    e.number = ++e.shared->recorded;
    put(name, [shared = e.shared, n = e.number] { shared->passed[n % shared_point::kept] = n; });
    e.after = e.stream->put;
    recorded[e.shared] = e;
  }
  /// A recording of another process passes when that process runs it; want() requests that.
  void wait_for_any(cudaStream_t name, const event_state& e) {
    put(name, [this, shared = e.shared, n = e.shared->recorded.load()] {
      if (n == 0 || shared->has_passed(n)) return;
      if (const auto mine = recorded.find(shared); mine != recorded.end() && mine->second.number == n)
        return run_to(*mine->second.stream, mine->second.after);
      common->want(*shared, n);
      throw not_yet{};
    });
  }

  void step(stream_state& s) {
    auto f = std::move(s.work.front());
    s.work.pop_front();
    const opened now{*this};
    try {
      f();
    } catch (const not_yet&) {
      s.work.push_front(std::move(f));
      throw;
    }
    ++s.done;
  }
  void run_to(stream_state& s, std::uint64_t after) {
    if (s.done >= after || s.work.empty()) return;
    const opened all{*this};
    while (s.done < after && !s.work.empty()) step(s);
  }
  /// False if another stream or process must run first.
  bool reaches(stream_state& s, std::uint64_t after) {
    try {
      run_to(s, after);
      return true;
    } catch (const not_yet&) {
      return false;
    }
  }
  bool run_all() {
    bool all = true;
    for (std::size_t before = moved + 1; before != moved;) {
      before = moved;
      all = true;
      for (auto& [name, s] : streams) all &= reaches(*s, s->put);
    }
    return all;
  }
  void put(cudaStream_t name, std::function<void()> f) { put(*streams.at(name), std::move(f)); }
  void put(stream_state& s, std::function<void()> f) {
    if (s.capture) return s.capture->nodes.push_back([this, f](cudaStream_t to) { put(to, f); });
    s.work.push_back(std::move(f));
    ++s.put;
  }
  const allocation* find(const void* p) const {
    auto next = memory.upper_bound(static_cast<const std::byte*>(p));
    if (next == memory.begin()) return nullptr;
    --next;
    return static_cast<const std::byte*>(p) < next->first + next->second.bytes ? &next->second : nullptr;
  }
};
inline machine the;
/// Before a kernel is launched: its stream must be of the current device.
inline void expect_current(cudaStream_t s) {
  if (the.streams.at(s)->device != device_of_thread)
    throw std::runtime_error{"a kernel is launched on a stream of another device than the current one"};
}
inline thread_local cudaError_t last_error = cudaSuccess;
/// The result of a failing call; cudaGetLastError returns it as well until it is read.
inline cudaError_t failing(cudaError_t e) { return last_error = e; }
/// Fails a call of this thread: the one of `name` after `after` others of that name.
struct failing_call {
  std::string name{};
  int after = 0;
};
inline thread_local failing_call fails;
inline bool is_to_fail(const char* name) {
  if (fails.name != name || fails.after-- > 0) return false;
  return fails = {}, true;
}
inline thread_local std::shared_ptr<graph_state> captured;  ///< the capture of this thread; see nccl_graphs.hpp

/// True if the thread captures; the capture is invalid then.
inline bool is_forbidden() {
  if (captured) captured->is_valid = false;
  return captured != nullptr;
}

/// As is_forbidden, of a call that a thread may make if its capture is relaxed.
inline bool is_unsafe() { return captured && !captured->is_relaxed && is_forbidden(); }

using guard = std::lock_guard<std::recursive_mutex>;

/// CUDA does not survive fork. Asked before the lock is taken: another thread of the parent may have held it.
inline bool is_forked() { return ::getpid() != the.process; }

inline bool run_everything() {
  const guard held{the.lock};
  return the.run_all();
}

/// While this object exists, the thread can access device memory, as a CUDA-aware transport does.
struct eyes {
  guard held{the.lock};
  machine::opened memory{the};
};

}  // namespace cuda_double
