// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On a real GPU: every collective by every algorithm, with tests/collectives. Exit status 77: no GPU.
// gpu_collectives [nccl]: between threads, or over NCCL; with less than four GPUs, NCCL needs NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30)
#include <kolo/cuda/threads.cuh>
#if __has_include(<nccl.h>)
#include <kolo/cuda/nccl/nccl.cuh>
#endif

#include "collectives/every_movement.hpp"
#include "collectives/every_reduction.hpp"
#include "collectives/pairs.hpp"
#include "cuda/on_gpu.hpp"
#include "cuda/settled.hpp"
#include "cuda/threads_calls.hpp"

#include <cstdio>

namespace testing {

/// operator new allocates where a device can access it: in pinned memory, allocated once and divided into blocks of powers of two.
class pinned_rooms {
 public:
  void open() {
    void* all = nullptr;
    kolo::cuda::check(cudaHostAlloc(&all, size, cudaHostAllocPortable), "cudaHostAlloc");
    next_ = first_ = static_cast<std::byte*>(all);
  }
  void* take(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    const int power = std::bit_width(bytes + edge - 1);
    if (auto* const known = free_[power]) {
      void* const p = known + edge;
      free_[power] = *static_cast<std::byte**>(p);
      return p;
    }
    if (!first_ || static_cast<std::size_t>(first_ + size - next_) < std::size_t{1} << power) return nullptr;
    auto* const room = std::exchange(next_, next_ + (std::size_t{1} << power));
    *static_cast<int*>(static_cast<void*>(room)) = power;
    return room + edge;
  }
  bool give_back(void* p) {
    auto* const room = static_cast<std::byte*>(p) - edge;
    if (!first_ || std::less<>{}(room, first_) || !std::less<>{}(room, first_ + size)) return false;
    const std::lock_guard lock{mutex_};
    auto& known = free_[*static_cast<int*>(static_cast<void*>(room))];
    *static_cast<std::byte**>(p) = std::exchange(known, room);
    return true;
  }

 private:
  static constexpr std::size_t size = std::size_t{1} << 30, edge = 64;
  std::mutex mutex_;
  std::byte *first_ = nullptr, *next_ = nullptr, *free_[64]{};
};
inline pinned_rooms pinned;

}  // namespace testing

namespace {
using namespace testing;

/// Ranks are threads.
struct over_devices {
  template <class F>
  static std::string run(int p, F f, std::size_t piece_bytes) {
    complaints wrong;
    try {
      run_on_devices<settled<kolo::cuda::threads_transport>>(
          p, [&](auto& comm) { f(comm, wrong); }, piece_bytes);
    } catch (const std::exception& e) {
      wrong.say(std::string{"threw: "} + e.what());
    }
    return wrong.text();
  }
};
#if __has_include(<nccl.h>)
/// Ranks are processes: of threads that share a GPU, one would block in the driver on what another has started.
struct over_nccl {
  template <class F>
  static std::string run(int p, F f, std::size_t piece_bytes) {
    const int status = kolo::shm::launch(
        p,
        [&](auto& host) {
          complaints wrong;
          kolo::cuda::set_device(host.local_rank() % kolo::cuda::devices());
          pinned.open();
          kolo::communicator<settled<kolo::nccl::transport>> comm{
              host, kolo::nccl::options{.timeout = std::chrono::seconds{30}, .piece_bytes = piece_bytes}};
          f(comm, wrong);
          std::fputs(wrong.text().c_str(), stdout);
          return wrong.text().empty() ? 0 : 1;
        },
        {.timeout = std::chrono::seconds{60}});
    return status == 0 ? "" : "see above\n";
  }
};
#endif

template <class Over, class F>
int judge(const std::string& name, std::initializer_list<int> sizes, F each) {
  int failed = 0;
  const auto once = [&](int p, std::size_t n, std::size_t slot) {
    const std::string wrong = Over::run(
        p, [&](auto& comm, complaints& w) { each(comm, w, n); }, slot);
    failed += verdict(name + ", " + std::to_string(p) + " ranks, " + std::to_string(n) + " elements", wrong);
  };
  for (const int p : sizes) once(p, 101, usual_slot);
  once(3, 211, small_slot);
  return failed;
}
template <class Over>
int every(const std::string& wire, std::initializer_list<int> sizes) {
  int failed = judge<Over>(wire + ": collectives that move", sizes, [](auto& comm, complaints& w, std::size_t n) {
    every_broadcast(comm, w, n);
    every_allgather(comm, w, n);
    every_gather_and_scatter(comm, w, n);
    every_alltoall(comm, w, n);
    kolo::barrier(comm);
  });
  failed += judge<Over>(wire + ": collectives that reduce", sizes, [](auto& comm, complaints& w, std::size_t n) {
    every_allreduce(comm, w, n);
    every_reduce(comm, w, n);
    every_reduce_scatter(comm, w, n);
    every_scan(comm, w, n);
  });
  failed += judge<Over>(wire + ": send, receive and exchange", {2},
                        [](auto& comm, complaints& w, std::size_t n) { every_pair(comm, w, n); });
  return failed;
}

}  // namespace

#ifndef __CUDA_ARCH__  // device code would get these operators as well
void* operator new(std::size_t bytes) {
  if (void* const p = pinned.take(bytes)) return p;
  if (void* const p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc{};
}
void operator delete(void* p) noexcept {
  if (p && !pinned.give_back(p)) std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
#endif

int main([[maybe_unused]] int argc, [[maybe_unused]] char** argv) {
  if (devices_here() == 0) return no_gpu();
#if __has_include(<nccl.h>)
  if (argc > 1 && std::string{argv[1]} == "nccl") return every<over_nccl>("NCCL", {1, 2, 4}) == 0 ? 0 : 1;
#endif
  pinned.open();
  return every<over_devices>("threads", {1, 2, 3, 4, 8}) == 0 ? 0 : 1;
}
