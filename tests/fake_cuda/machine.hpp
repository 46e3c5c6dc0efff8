// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that the double of the CUDA runtime runs on: streams, events, and memory of devices.
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
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

// Whatever can happen later, happens as late as it may: an operation on a stream runs when a call waits for it, or one at a time when a call asks whether it
// has run. So a synchronisation that is missing is seen as bytes that are not there yet. Memory of a device is open only while such operations run.
namespace cuda_double {

/// Thrown by an operation whose other side is not there yet.
struct not_yet {};

/// What a stream captures: each node puts itself on a stream when the graph is launched.
struct graph_state {
  std::vector<std::function<void(cudaStream_t)>> nodes;
  bool is_valid = true;
};
struct stream_state {
  std::deque<std::function<void()>> work;
  std::uint64_t put = 0, done = 0;  ///< operations
  bool is_stuck = false;            ///< nobody who only asks gets it to go on
  int device = 0;
  std::shared_ptr<graph_state> capture;  ///< null: what is put there runs
};
struct event_state {
  std::shared_ptr<stream_state> stream{};  ///< null: never recorded
  std::uint64_t after = 0;                 ///< so many operations of it
  int device = 0;
  shared_point* shared = nullptr;  ///< other processes may have it as well
  std::uint64_t number = 0;        ///< of this process's recording, among all of them
  bool is_imported = false;
};
struct allocation {
  std::size_t bytes;
  int device;
  cudaMemoryType type;
  std::uint64_t at = 0;      ///< in the file that processes share
  std::uint32_t number = 0;  ///< among all allocations that ever were
  bool is_of_a_pool = false;
};
/// Another process's memory, here.
struct window {
  std::size_t bytes;
  std::uint32_t number;
  int openings;
};

/// All there is, behind one lock.
struct machine {
  static constexpr std::size_t arena_bytes = std::size_t{1} << 28;
  std::recursive_mutex lock;
  int devices = 1;
  bool devices_are_apart = false;         ///< none can touch another's memory
  std::set<std::pair<int, int>> reached;  ///< the memory of the second from the first
  bool takes_all_memory = false;  ///< memory of the host counts as a device's: for tests that were written for the host
  std::map<const std::byte*, allocation> memory;
  std::map<cudaStream_t, std::shared_ptr<stream_state>> streams;
  std::map<cudaEvent_t, event_state> events;
  std::byte* arena = nullptr;
  std::size_t used = 0, launches = 0, copies = 0, waits = 0, pinned_blocks = 0, frees = 0;
  std::atomic<int> questions = 0;       ///< about devices, and whether they reach each other
  std::size_t spinning = 0, moved = 0;  ///< kernels that wait for others, and how far they have come
  std::uintptr_t names = 1;
  int open = 0;
  common_ground* common = nullptr;  ///< null: there are no other processes
  std::map<std::byte*, window> windows;
  std::function<void()> before_opening;           ///< of another process's memory: what happens meanwhile
  std::map<shared_point*, event_state> recorded;  ///< the last time, by this process

  machine() {
    arena = static_cast<std::byte*>(
        ::mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    streams[nullptr] = std::make_shared<stream_state>();
  }
  machine(const machine&) = delete;
  ~machine() {  // pinned memory that nobody has given back ends with the process
    for (const auto& [at, a] : memory)
      if (a.type == cudaMemoryTypeHost) std::free(const_cast<std::byte*>(at));
  }
  void protect(int how) const {
    ::mprotect(arena, (used + 4095) / 4096 * 4096, how);
    for (const auto& [at, w] : windows) ::mprotect(at, w.bytes, how);
  }
  /// The memory may be touched, as long as this lives.
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
  /// What others have open stays until they close it.
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
  /// What another process has recorded is reached when that process has; it is asked to go on.
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
  /// False: it cannot go on before somebody else comes.
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
  void put(cudaStream_t name, std::function<void()> f) {
    auto& s = *streams.at(name);
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
inline thread_local int device_of_thread = 0;
inline thread_local cudaError_t last_error = cudaSuccess;
/// What a call returns that fails; until somebody asks, the runtime keeps it as well.
inline cudaError_t failing(cudaError_t e) { return last_error = e; }
/// Which call of this thread fails: the one of this name that comes after so many more.
struct failing_call {
  std::string name{};
  int after = 0;
};
inline thread_local failing_call fails;
inline bool is_to_fail(const char* name) {
  if (fails.name != name || fails.after-- > 0) return false;
  return fails = {}, true;
}
inline thread_local std::shared_ptr<graph_state> captured;  ///< by this thread, now; see graphs.hpp

/// What must not be called by a thread that captures; the capture is lost then.
inline bool is_forbidden() {
  if (captured) captured->is_valid = false;
  return captured != nullptr;
}

using guard = std::lock_guard<std::recursive_mutex>;

inline bool run_everything() {
  const guard held{the.lock};
  return the.run_all();
}

/// While one lives, this thread sees the memory of devices, as a wire does that reaches them.
struct eyes {
  guard held{the.lock};
  machine::opened memory{the};
};

}  // namespace cuda_double
