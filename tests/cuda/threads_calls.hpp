// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads that access each other's device memory, and calls that all ranks make.
#pragma once

#include "cuda/ranks.hpp"
#include "cuda/same_bits.hpp"
#include "support/ends.hpp"

#include <kolo/cuda/impl/direct.hpp>
#include <kolo/cuda/threads.hpp>
#include <kolo/cuda/threads_transport.hpp>
#include <kolo/impl/engine.hpp>

#include <barrier>

namespace testing {

/// Runs f(comm) on `ranks` threads, with the devices assigned in turn.
template <class T, class F>
void run_on_devices(int ranks, F f, std::size_t piece_bytes = usual_slot,
                    const kolo::threads::options& o = impatient(usual_slot)) {
  kolo::threads::run(
      ranks,
      [&](auto& host) {
        kolo::cuda::set_device(host.rank() % kolo::cuda::devices());
        kolo::communicator<T> comm{host, kolo::cuda::direct_options{.piece_bytes = piece_bytes}};
        f(comm);
      },
      o);
}

/// Every rank enqueues its call and then overwrites its tensors. The ranks wait for their streams one after another, beginning with each rank once.
template <class C, class Barrier>
void overwrites_at_once(C& comm, complaints& wrong, cudaStream_t s, Barrier& all, bool fused) {
  const int p = comm.size(), r = comm.rank();
  for (int first = 0; first < p; ++first) {
    tensor<float> in{std::vector<float>(300), s}, out{std::vector<float>(300), s}, kept{std::vector<float>(300), s};
    const auto mine = of_rank(r, 300);
    all.arrive_and_wait();
    kolo::cuda::copy(in.data(), mine.data(), 1200, s);  // still pending
    if (fused) kolo::allreduce(comm, in.view(), out.view(), kolo::sum, kolo::native{}, {.stream = s});
    else kolo::allreduce(comm, in.view(), out.view(), kolo::sum, kolo::one_shot{}, {.stream = s});
    kolo::cuda::copy(kept.data(), out.data(), 1200, s);
    kolo::cuda::fill(in.data(), 0, 1200, s);
    kolo::cuda::fill(out.data(), 0, 1200, s);
    for (int turn = 0; turn < p; ++turn) {
      all.arrive_and_wait();
      if (kolo::mod(first + turn, p) == r) kolo::cuda::wait(s);
    }
    all.arrive_and_wait();
    expect_same(wrong, "sum", r, kept.values(), summed(p, 300));
    expect_same(wrong, "overwritten", r, out.values(), std::vector<float>(300));
  }
}

template <class T>
std::vector<T> numbers(int r, std::size_t n) {
  std::vector<T> x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(number<T>(i * 31 + static_cast<std::size_t>(r)));
  return x;
}
/// In place and out of place, contiguous and strided, with one element before and one after, and lengths that no p divides.
template <class T, class C, class Op>
void fused_is_two_shot(C& comm, complaints& wrong, cudaStream_t s, const Op& op, const std::string& name) {
  const int r = comm.rank();
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1009}}) {
    const auto mine = numbers<T>(r, n + 2);
    tensor<T> a{mine, s}, b{mine, s}, in{mine, s}, out{mine, s};
    const auto rest = [&](tensor<T>& x) { return x.view().subspan(1, n); };
    kolo::allreduce(comm, rest(a), op, kolo::two_shot{}, {.stream = s});
    kolo::allreduce(comm, rest(b), op, kolo::native{}, {.stream = s});
    kolo::allreduce(comm, rest(in), rest(out), op, kolo::native{}, {.stream = s});
    const auto expected = a.values();
    expect_bytes(wrong, name, r, b.values().data(), expected.data(), n + 2, sizeof(T));
    expect_bytes(wrong, name + ", not in place", r, out.values().data(), expected.data(), n + 2, sizeof(T));
    expect_bytes(wrong, name + ", its input", r, in.values().data(), mine.data(), n + 2, sizeof(T));
    tensor<T> c{mine, s}, d{mine, s};
    const kolo::device_strided<T, 2> odd{c.data(), {n / 2, 1}, {2, 1}}, odd_too{d.data(), {n / 2, 1}, {2, 1}};
    kolo::allreduce(comm, odd, op, kolo::two_shot{}, {.stream = s});
    kolo::allreduce(comm, odd_too, op, kolo::native{}, {.stream = s});
    expect_bytes(wrong, name + ", strided", r, d.values().data(), c.values().data(), n + 2, sizeof(T));
  }
}

/// The last rank to call begins at once; no request may complete before all ranks have called.
template <class C, class Barrier>
void ends_with_the_last_answer(C& comm, complaints& wrong, cudaStream_t s, Barrier& all) {
  tensor<float> x{of_rank(comm.rank(), 100), s};
  auto request = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.stream = s});
  for (int r = 0; r < comm.size(); ++r) {
    if (r == comm.rank()) wrong.expect(!request.test(), "completed before the others have called");
    all.arrive_and_wait();
  }
  request.wait();
  expect_same(wrong, "sum", comm.rank(), x.values(), summed(comm.size(), 100));
}

/// Of two ranks, rank 0's call times out after rank 1 has started: rank 1 gets the same error, and accesses nothing of rank 0's. `both` is a barrier; `work()`
/// counts the operations enqueued on devices.
template <class C, class Meeting, class Work>
std::string told_after_giving_up(C& comm, complaints& wrong, bool fused, Meeting& both, Work work) {
  using namespace std::chrono_literals;
  const kolo::cuda::stream s;
  tensor<float> x{of_rank(comm.rank(), 100), s};
  const std::chrono::nanoseconds timeout = comm.rank() == 0 ? 50ms : 60'000ms;
  auto request =
      fused ? kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.timeout = timeout, .stream = s})
            : kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::recursive_doubling{},
                                    {.timeout = timeout, .stream = s});
  both.arrive_and_wait();
  std::string told = comm.rank() == 0 ? words_of([&] { request.wait(); }) : "";
  both.arrive_and_wait();
  const auto before = work();
  if (comm.rank() == 1) told = words_of([&] { request.test(); });
  wrong.expect(comm.rank() == 0 || before == work(), "accessed after the failure");
  wrong.expect(told.find("rank 1 is late") != std::string::npos, "got \"" + told + '"');
  both.arrive_and_wait();
  return told;
}

}  // namespace testing
