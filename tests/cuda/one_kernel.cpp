// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans that run as one kernel on each device, on the fake CUDA runtime and on fake kernels whose blocks wait for each other.
#include "cuda/one_kernel_calls.hpp"
#include "fake_cuda/together.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

#include <barrier>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

using namespace testing;

namespace {

/// Runs f(host, comm, wrong) on views in device memory.
template <class F>
void with_one_kernel(std::initializer_list<int> sizes, F f, std::size_t piece_bytes = usual_slot) {
  cuda_double::the.takes_all_memory = false;
  for (const int p : sizes) {
    complaints wrong;
    try {
      run_with_one_kernel(
          p, [&](auto& host, auto& comm) { f(host, comm, wrong); }, piece_bytes);
    } catch (const std::exception& e) {
      wrong.say(e.what());
    }
    CHECK(wrong.text() == "");
  }
}

}  // namespace

TEST_CASE("one kernel: collectives that reduce") {
  with_one_kernel({1, 2, 3, 4, 8},
                  [](auto& host, auto& comm, complaints& wrong) { every_planned_reduction(host, comm, wrong, 101); });
}
TEST_CASE("one kernel: collectives that move elements") {
  with_one_kernel({1, 2, 3, 4, 8},
                  [](auto& host, auto& comm, complaints& wrong) { every_planned_movement(host, comm, wrong, 101); });
}
TEST_CASE("one kernel: spans, strided views and buckets, in pieces") {
  with_one_kernel({2, 3, 4}, [](auto&, auto& comm, complaints& wrong) { plans_views_of_every_kind(comm, wrong); });
  with_one_kernel(
      {3},
      [](auto& host, auto& comm, complaints& wrong) {
        plans_views_of_every_kind(comm, wrong);
        planned_allreduce(host, comm, wrong, 211, kolo::ring{});
        planned_alltoall(host, comm, wrong, 211, kolo::bruck{});
      },
      small_slot);
}
TEST_CASE("one kernel: a run is one launch on each device, and copies or allocates nothing") {
  for (const int devices : {1, 2}) {
    cuda_double::the.devices = devices;
    std::barrier all{4};
    with_one_kernel({4}, [&](auto&, auto& comm, complaints& wrong) {
      const kolo::cuda::stream s;
      tensor<float> x{of_rank(comm.rank(), 1000), s};
      auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
      plan.run();
      all.arrive_and_wait();
      const auto launches = cuda_double::the.launches, copies = cuda_double::the.copies,
                 blocks = cuda_double::the.memory.size(), events = cuda_double::the.events.size();
      all.arrive_and_wait();
      plan.run();
      all.arrive_and_wait();
      const auto launched = cuda_double::the.launches - launches;
      wrong.expect(launched == static_cast<std::size_t>(devices), std::to_string(launched) + " launches");
      wrong.expect(cuda_double::the.copies == copies && cuda_double::the.memory.size() == blocks &&
                       cuda_double::the.events.size() == events,
                   "copied or allocated");
      all.arrive_and_wait();
    });
  }
  cuda_double::the.devices = 1;
}
TEST_CASE("one kernel: several devices") {
  cuda_double::the.devices = 2;
  with_one_kernel({2, 3, 4}, [](auto& host, auto& comm, complaints& wrong) {
    planned_allreduce(host, comm, wrong, 101, kolo::ring{}, kolo::recursive_doubling{}, kolo::one_shot{});
    planned_broadcast(host, comm, wrong, 101, kolo::chain{.segments = 3});
    planned_alltoall(host, comm, wrong, 101, kolo::bruck{});
    plans_views_of_every_kind(comm, wrong);
  });
  CHECK(cuda_double::raised_elsewhere == 0);
  cuda_double::the.devices = 1;
}
TEST_CASE("one kernel: plans of devices that cannot access each other's memory run call by call") {
  cuda_double::the.devices = 2;
  cuda_double::the.devices_are_apart = true;
  with_one_kernel({3}, [](auto&, auto& comm, complaints& wrong) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    auto plan = kolo::plan_allreduce(comm, x.view(), kolo::max, kolo::ring{}, {.stream = s});
    for (int k = 0; k < 3; ++k) plan.run();
    expect_same(wrong, "maximum", comm.rank(), x.values(), of_rank(2, 100));
    wrong.expect(plan.how() == "call by call", plan.how());
  });
  cuda_double::the.devices_are_apart = false;
  cuda_double::the.devices = 1;
}
TEST_CASE("one kernel: requests and plans progress on their device while another one is current") {
  cuda_double::the.devices = 2;
  with_one_kernel({2, 3}, [](auto&, auto& comm, complaints& wrong) {
    const kolo::cuda::stream s;
    progresses_under_another_device(comm, wrong, s);
  });
  cuda_double::the.devices = 1;
}
TEST_CASE("one kernel: a forked copy of a rank stops no kernel of the rank") {
  std::barrier both{2};
  int status = -1;
  with_one_kernel({2}, [&](auto&, auto& comm, complaints&) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    plan.run();
    both.arrive_and_wait();
    if (comm.rank() == 0) {
      const ::pid_t copy = ::fork();
      if (copy == 0) {
        { const auto destroyed = std::move(comm.transport()); }
        bool stops = false;  // pinned memory, which a copy may share with the rank
        for (const auto& [at, a] : cuda_double::the.memory)
          stops = stops || (a.type == cudaMemoryTypeHost && a.bytes == 4 && *at != std::byte{0});
        ::_exit(stops ? 1 : 0);
      }
      ::waitpid(copy, &status, 0);
    }
    both.arrive_and_wait();
  });
  CHECK(status == 0);
}
TEST_CASE("one kernel: plans among calls, of native algorithms, a barrier, and a restarted request") {
  with_one_kernel({3}, [](auto&, auto& comm, complaints& wrong) {
    const kolo::cuda::stream s, other;
    tensor<float> x{of_rank(comm.rank(), 300), s};
    auto fused = kolo::plan_allreduce(comm, x.view(), kolo::max, {.stream = s});
    auto barrier = kolo::plan_barrier(comm, {.stream = other});
    auto sum = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    sum.wait();
    for (int run = 0; run < 3; ++run) {
      fused.run();
      barrier.run();
      kolo::allreduce(comm, x.view(), kolo::min, kolo::circulant{}, {.stream = other});
    }
    sum.restart();
    sum.wait();
    auto expected = summed(3, 300);
    for (auto& v : expected) v *= 3;
    expect_same(wrong, "sum of sums", comm.rank(), x.values(), expected);
  });
}

TEST_CASE("one kernel: different plans on two ranks, and too many ranks on a device, are errors on all ranks") {
  cuda_double::the.takes_all_memory = false;
  std::vector<std::string> said(2);
  run_with_one_kernel(2, [&](auto&, auto& comm) {
    const int r = comm.rank();
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(r, 10), s}, y{of_rank(r, 10), s};
    auto a = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s}),
         b = kolo::plan_allreduce(comm, y.view(), kolo::sum, kolo::ring{}, {.stream = s});
    a.run();
    b.run();
    said[static_cast<std::size_t>(r)] = words_of([&] { (r == 0 ? a : b).run(); });
  });
  CHECK(said[0].find("does something else") != std::string::npos);
  CHECK(said[1].find("does something else") != std::string::npos);

  cuda_double::blocks_at_once = 1;
  run_with_one_kernel(2, [&](auto&, auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 10), s};
    auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    said[static_cast<std::size_t>(comm.rank())] = words_of([&] { plan.run(); });
  });
  CHECK(said[0].find("the device cannot run 2 blocks of a kernel at once, one for each rank") != std::string::npos);
  CHECK(said[1] == said[0]);
  cuda_double::blocks_at_once = 16;
}
TEST_CASE("one kernel: a kernel that waits for another device ends after the failure, and nothing it uses is freed") {
  using namespace std::chrono_literals;
  cuda_double::the.takes_all_memory = false;
  cuda_double::the.devices = 2;
  complaints wrong;
  std::string said[2];
  std::barrier both{2};
  run_with_one_kernel(2, [&](auto&, auto& comm) {
    const int r = comm.rank();
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(r, 10), s};
    const std::chrono::nanoseconds timeout = r == 0 ? 500ms : 60'000ms;
    std::optional request{
        kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.timeout = timeout, .stream = s})};
    request->wait();
    request->restart();
    request->wait();
    s.wait();
    both.arrive_and_wait();
    if (r == 1) request->restart();
    both.arrive_and_wait();
    if (r == 0) {
      request->restart();
      said[0] = words_of([&] { request->wait(); });
      const kolo::cuda::event end;
      end.record(s);
      bool has_ended = false;
      for (int look = 0; look < 100 && !has_ended; ++look) has_ended = end.has_passed();
      wrong.expect(has_ended, "the kernel still waits");
    }
    both.arrive_and_wait();
    if (r == 1) said[1] = words_of([&] { request->wait(); });
    const auto frees = cuda_double::the.frees;
    both.arrive_and_wait();
    request.reset();
    { const auto failed = std::move(comm); }
    both.arrive_and_wait();
    wrong.expect(cuda_double::the.frees == frees, "memory was freed that a kernel may read");
    both.arrive_and_wait();
  });
  CHECK(wrong.text() == "");
  CHECK(said[0].find("rank 1 is late") != std::string::npos);
  CHECK(said[1] == said[0]);
  cuda_double::the.devices = 1;
}

TEST_CASE("one kernel: captured programs whose messages do not match, or that wait in a cycle, are refused") {
  using kolo::detail::cuda::linked_program, kolo::detail::cuda::captured_program;
  std::byte x[64];
  const auto words = [](const captured_program& a, const captured_program& b) {
    return words_of([&] { linked_program::join({&a, &b}); });
  };
  captured_program sends, expects_less, expects, receives_first, receives_too;
  sends.send(1, x, 8, 7);
  sends.submit();
  expects_less.receive(0, x + 8, 4, 7);
  expects_less.submit();
  expects.receive(0, x + 8, 8, 7);
  expects.submit();
  CHECK(words(sends, expects_less).find("rank 0 sends other messages than rank 1 expects of it") != std::string::npos);
  CHECK(words(sends, captured_program{}).find("rank 0 sends other messages") != std::string::npos);
  CHECK(words(sends, expects) == "");
  for (auto* n : {&receives_first, &receives_too}) {
    const int peer = n == &receives_first ? 1 : 0;
    n->receive(peer, x, 8, 7);
    n->submit();
    n->send(peer, x + 8, 8, 7);
    n->submit();
  }
  CHECK(words(receives_first, receives_too).find("wait for each other in a cycle") != std::string::npos);
}
TEST_CASE("one kernel: an action knows the alignment of its addresses, also above 16") {
  kolo::detail::cuda::captured_program n;
  alignas(64) std::byte x[128];
  const kolo::source from{x, false};
  n.combine({.element_bytes = 32, .wire_bytes = 32}, x + 80, &from, 1, 1, 0);
  CHECK(n.actions[0].addresses % 32 == 16);
}
TEST_CASE("one kernel: an operation that depends on another is in a later phase") {
  kolo::detail::cuda::captured_program n;
  std::byte x[64];
  const auto phases = [&] { return n.phases.size(); };
  n.copy(x, x + 32, 8);
  n.copy(x + 8, x + 40, 8);
  CHECK(phases() == 1);
  n.copy(x + 16, x + 8, 1);  // reads what was written
  CHECK(phases() == 2);
  n.copy(x + 24, x + 33, 4);
  CHECK(phases() == 2);
  n.copy(x + 27, x + 60, 1);  // writes what was written
  CHECK(phases() == 3);
  n.copy(x + 60, x + 50, 1);  // writes what is read
  CHECK(phases() == 4);
}
