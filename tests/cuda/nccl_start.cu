// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linked with the real NCCL: its collectives compared with kolo's, plans, failures, and times. Without a GPU it prints why, and tests only the host's tensors.
// together nccl_start [RANKS [times]], see run.sh: RANKS processes, by default one per GPU; more if NCCL_MULTI_RANK_GPU_ENABLE=1 lets ranks share a GPU
// (NCCL 2.30). `times`: only measures calls, between threads, whose kernels can share a GPU.
#include <kolo/compose/composite.hpp>
#include <kolo/cuda/nccl/nccl.cuh>

#include "cuda/nccl_calls.hpp"
#include "cuda/on_gpu.hpp"
#include "support/ends.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace std::chrono_literals;

/// True if f() finds nothing wrong on any rank; f() returns what is wrong on this one.
template <class Host, class F>
bool judge(Host& host, const std::string& name, F f) {
  const std::string wrong = f();
  int failed = !wrong.empty();
  if (failed) std::printf("rank %d: %s\n", host.rank(), wrong.c_str());
  kolo::allreduce(host, std::span{&failed, 1}, kolo::max);
  if (host.rank() == 0)
    testing::verdict(name + (", " + std::to_string(host.size())) + " ranks", failed ? "see above\n" : "");
  std::fflush(stdout);
  return !failed;
}

/// Runs f(comm, wrong, stream).
template <class Host, class F>
bool passes(Host& host, const char* name, F f) {
  return judge(host, name, [&] {
    testing::complaints wrong;
    const std::string thrown = testing::words_of([&] {
      kolo::nccl::communicator comm{host, kolo::nccl::options{.timeout = 30s}};
      const kolo::cuda::stream s;
      f(comm, wrong, s);
      comm.transport().wait({.stream = s});
    });
    if (!thrown.empty()) wrong.say("threw: " + thrown);
    return wrong.text();
  });
}

/// True if f(call, wait), in which one rank fails, ends on all ranks with an error that contains `words`.
template <class Host, class F>
bool ends(Host& host, const char* name, const char* words, std::chrono::seconds timeout, F f) {
  return judge(host, name, [&] {
    const std::string said = testing::words_of([&] {
      kolo::nccl::communicator comm{host, kolo::nccl::options{.timeout = timeout}};
      const kolo::cuda::stream s;
      testing::tensor<float> x{testing::of_rank(host.rank(), 100), s};
      const auto call = [&] { kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s}); };
      const auto wait = [&] { comm.transport().wait({.stream = s}); };
      call();
      wait();
      f(call, wait);
    });
    return said.find(words) == std::string::npos ? "it ended with: " + said : "";
  });
}
template <class Host>
bool failures(Host& host) {
  const bool is_thrown =
      ends(host, "an exception on a rank ends the others' calls", "rank 0", 20s, [&](auto call, auto wait) {
        if (host.rank() == 0) throw kolo::error{kolo::errc::system, "rank 0 has other plans"};
        call();
        wait();
      });
  const bool is_late =
      ends(host, "a rank that does not call is a timeout", "has not come to its end within 2", 2s,
           [&](auto call, auto wait) {
             if (host.rank() > 0) call();
             for (const auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;)
               wait();
           });
  return is_thrown && is_late;
}

/// Device views over NCCL and host views over shared memory in one communicator, also after a process has died and the others have shrunk it.
bool together(int ranks) {
  const testing::common<std::atomic<int>> right;  // surviving ranks that found nothing wrong
  kolo::shm::launch(
      ranks,
      [&](kolo::shm::communicator& host) {
        kolo::cuda::set_device(host.local_rank() % kolo::cuda::devices());
        testing::complaints wrong;
        kolo::composite<kolo::nccl::transport, kolo::shm::transport> both{host, kolo::nccl::options{.timeout = 30s}};
        const kolo::cuda::stream s;
        testing::views_of_every_kind(both, wrong, s);
        const auto sums = [&](auto& comm, const char* when) {
          const int p = comm.size(), r = comm.rank();
          testing::tensor<float> x{testing::of_rank(r, 300), s};
          auto y = testing::of_rank(r, 300);
          auto there = kolo::start_allreduce(comm, y, kolo::sum);
          kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
          there.wait();
          testing::expect_same(wrong, std::string{"on the device "} + when, r, x.values(), testing::summed(p, 300));
          testing::expect_same(wrong, std::string{"on the host "} + when, r, y, testing::summed(p, 300));
        };
        sums(both, "at first");
        if (host.rank() == 1) std::_Exit(1);
        std::string why = testing::words_of([&] {
          for (int k = 0; k < 100'000; ++k) sums(both, "before rank 1 died");
        });
        wrong.expect(why.find("rank 1") != std::string::npos, why);
        auto rest = both.shrink();
        sums(rest, "after shrink");
        if (rest.rank() == 0) std::printf("  %s\n", why.c_str());
        std::fputs(wrong.text().c_str(), stdout);
        *right += wrong.text().empty();
      },
      {.timeout = std::chrono::seconds{60}});
  return *right == ranks - 1;
}

/// Times of NCCL's allreduce, called directly and as a CUDA graph, for comparison with published latencies; and through kolo.
template <class C>
void latency(C& comm, const char* how) {
  const kolo::cuda::stream s;
  const auto memory = kolo::cuda::allocate(std::size_t{64} << 20);  // freeing it waits for all work on the GPU
  for (const std::size_t bytes : {512, 4096, 65536, 1 << 20, 64 << 20}) {
    const kolo::device_span<float> x{reinterpret_cast<float*>(memory.get()), bytes / sizeof(float)};
    kolo::cuda::fill(x.data(), 0, bytes, s);
    const int times = bytes > 65536 ? 50 : 500;
    const auto call = [&] {
      const ncclComm_t c = comm.transport().native_handle();
      ncclResult_t r = ncclAllReduce(memory.get(), memory.get(), bytes / sizeof(float), ncclFloat, ncclSum, c, s);
      while (r == ncclInProgress) static_cast<void>(ncclCommGetAsyncError(c, &r));
      if (r != ncclSuccess) throw kolo::error{kolo::errc::system, ncclGetErrorString(r)};
    };
    const double called = testing::seconds_of(times, s, call);
    kolo::cuda::capture noted{s};
    call();
    const auto graph = noted.end();
    const double launched = testing::seconds_of(times, s, [&] { graph.launch(s); });
    const double ours = testing::seconds_of(times, s, [&] { kolo::allreduce(comm, x, kolo::sum, {.stream = s}); });
    auto plan = kolo::plan_allreduce(comm, x, kolo::sum, {.stream = s});
    const double planned = testing::seconds_of(times, s, [&] { plan.run(); });
    if (comm.rank() == 0)
      std::printf(
          "NCCL, %s, %d ranks, %zu bytes: %.1f us; as a CUDA graph %.1f us; through kolo %.1f us, as a plan %.1f us\n",
          how, comm.size(), bytes, 1e6 * called, 1e6 * launched, 1e6 * ours, 1e6 * planned);
    std::fflush(stdout);
  }
}

template <class Host>
bool times(Host& host) {
  kolo::cuda::set_device(host.local_rank() % kolo::cuda::devices());
  return passes(host, "times", [&](auto& comm, auto&, const kolo::cuda::stream&) {
    latency(comm, "not blocking");
    ncclUniqueId id{};
    if (host.rank() == 0) static_cast<void>(ncclGetUniqueId(&id));
    kolo::broadcast(host, std::span{id.internal}, 0);
    ncclComm_t blocking = nullptr;
    static_cast<void>(ncclCommInitRank(&blocking, host.size(), id, host.rank()));
    {
      kolo::nccl::communicator existing{blocking};
      latency(existing, "blocking");
    }
    static_cast<void>(ncclCommDestroy(blocking));
  });
}

template <class Host>
bool on_gpus(Host& host) {
  kolo::cuda::set_device(host.local_rank() % kolo::cuda::devices());
  bool is_right = passes(
      host, "calls on spans, strided views and buckets",
      [](auto& comm, auto& wrong, const kolo::cuda::stream& s) { testing::views_of_every_kind(comm, wrong, s); });
  is_right &= passes(host, "stream order", [](auto& comm, auto& wrong, const kolo::cuda::stream& s) {
    testing::keeps_the_order_of_streams(comm, wrong, s);
  });
  is_right &= passes(host, "NCCL's collectives give the results of kolo's algorithms",
                     [](auto& comm, auto& wrong, const kolo::cuda::stream& s) { testing::as_ours(comm, wrong, s); });
  is_right &= passes(host, "split", [](auto& comm, auto& wrong, const kolo::cuda::stream& s) {
    const int r = comm.rank();
    auto part = comm.split(r % 2, -r);
    testing::tensor<float> x{std::vector<float>(1000, 1.0F), s};
    kolo::allreduce(part, x.view(), kolo::sum, {.stream = s});
    kolo::allreduce(part, x.view(), kolo::max, kolo::ring{}, {.stream = s});
    testing::expect_same(wrong, "split", r, x.values(), std::vector<float>(1000, static_cast<float>(part.size())));
  });
  is_right &= passes(host, "plans are CUDA graphs", [](auto& comm, auto& wrong, const kolo::cuda::stream& s) {
    testing::tensor<float> x{testing::of_rank(comm.rank(), 30'007), s}, y{testing::of_rank(comm.rank(), 30'007), s};
    auto native = kolo::plan_allreduce(comm, x.view(), kolo::average, {.stream = s});
    auto ours = kolo::plan_allreduce(comm, y.view(), kolo::average, kolo::two_shot{}, {.stream = s});
    for (int k = 0; k < 5; ++k) {
      native.run();
      ours.run();
      testing::expect_same(wrong, "plan", comm.rank(), x.values(), y.values());
    }
    const bool are_graphs = native.how() == "a CUDA graph" && ours.how() == "a CUDA graph";
    wrong.expect(are_graphs || comm.size() == 1, native.how() + ", " + ours.how());
  });
  if (host.size() > 1) is_right &= failures(host);
  if (host.size() <= kolo::cuda::devices()) is_right &= times(host);  // processes take turns on a shared GPU
  return is_right;
}

/// Without a GPU: prints why, and tests the host's tensors.
template <class Host>
bool on_the_host(Host& host) {
  std::vector<float> x(1000, 1.0f);
  const std::string why = testing::words_of([&] { kolo::nccl::communicator comm{host}; });
  if (host.rank() == 0) std::puts(why.c_str());
  kolo::allreduce(host, x, kolo::sum);
  return x[0] == static_cast<float>(host.size()) && x[999] == x[0];
}

}  // namespace

int main(int argc, char** argv) {
  const int devices = testing::devices_here();
  const int ranks = argc > 1 ? std::atoi(argv[1]) : devices > 0 ? devices : 2;
  const auto each = [&](auto& host) { return devices > 0 ? on_gpus(host) : on_the_host(host); };
  std::atomic<bool> is_right = true;
  if (devices > 0 && argc > 2) kolo::threads::run(ranks, [&](auto& host) { is_right = times(host) && is_right; });
  else
    is_right = kolo::shm::launch(ranks, [&](auto& host) { return each(host) ? 0 : 1; },
                                 {.timeout = std::chrono::seconds{60}}) == 0;
  if (devices > 0 && ranks > 1 && argc < 3) {
    const int failed =
        testing::verdict("composite of NCCL and shared memory, " + std::to_string(ranks) + " ranks, one of which dies",
                         together(ranks) ? "" : "see above\n");
    is_right = is_right && failed == 0;
  }
  std::printf("%d ranks: %s\n", ranks, is_right ? "all is right" : "something is wrong");
  return is_right ? 0 : 1;
}
