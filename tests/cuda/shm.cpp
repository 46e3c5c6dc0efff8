// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes on the fake CUDA runtime: laws, stream order, memory that is freed and allocated again, ranks that die.
#include <kolo/explain.hpp>

#include "cuda/shm_ranks.hpp"
#include "laws/message_laws.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

using namespace testing;
using namespace std::chrono_literals;

namespace {

static_assert(kolo::MessageTransport<settled_shm> && !kolo::SlotTransport<settled_shm>);

template <class Law>
launch_result in_messages(int p, Law law) {
  cuda_double::the.takes_all_memory = true;
  auto end = on_device_processes<settled_shm>(p, [&](auto& comm, complaints& wrong) {
    const auto said = law(comm.transport());
    wrong.expect(said.empty(), said);
  });
  cuda_double::the.takes_all_memory = false;
  return end;
}

/// Runs f(comm, wrong, stream) on views in device memory.
template <class F>
void on_devices(std::initializer_list<int> sizes, F f) {
  for (const int p : sizes) {
    const auto end = on_device_processes(p, [&](auto& comm, complaints& wrong) {
      const kolo::cuda::stream s;
      f(comm, wrong, s);
    });
    CHECK(end.said == all_say(p, ""));
    CHECK(end.errors == "");
    CHECK(end.clean);
  }
}

}  // namespace

TEST_CASE("device processes: the transport laws") {
  for (const int p : {1, 2, 3, 4}) {
    CHECK(in_messages(p, laws::is_constant).said == all_say(p, ""));
    CHECK(in_messages(p, laws::failure_wakes_everybody).said == all_say(p, ""));
    CHECK(in_messages(p, laws::split_orders_by_key_and_rank).said == all_say(p, ""));
    CHECK(in_messages(p, laws::messages_arrive_in_order).said == all_say(p, ""));
  }
}
TEST_CASE("device processes: calls on spans, strided views and buckets") {
  on_devices({1, 2, 3, 4},
             [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) { views_of_every_kind(comm, wrong, s); });
}
TEST_CASE("device processes: work on a stream before and after a call is ordered with the call") {
  on_devices({1, 2, 3}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    keeps_the_order_of_streams(comm, wrong, s);
  });
}
TEST_CASE("device processes: a buffer is not overwritten before all peers have read and written it") {
  for (const bool fused : {false, true}) {
    meeting_point all{3};
    on_devices({3}, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
      overwrites_at_once(comm, wrong, s, all, fused);
    });
  }
}
TEST_CASE("device processes: native allreduce has the bits of two_shot") {
  on_devices({1, 2, 3, 4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum of float");
    fused_is_two_shot<double>(comm, wrong, s, scaled_or_first{1.5F}, "an operator that does not commute");
  });
}
TEST_CASE("device processes: the default allreduce is one kernel per rank, and opens no memory twice") {
  on_devices({4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(comm.rank(), 1000), s}, y{of_rank(comm.rank(), 1000), s};
    const auto call = [&] { kolo::allreduce(comm, x.view(), y.view(), kolo::sum, {.stream = s}); };
    for (int k = 0; k < 4; ++k) call();  // every slot has its events
    const auto launches = cuda_double::the.launches;
    const int questions = cuda_double::the.questions;
    const auto events = cuda_double::the.events.size();
    for (int k = 0; k < 10; ++k) call();
    wrong.expect(cuda_double::the.launches == launches + 10,
                 "launches: " + std::to_string(cuda_double::the.launches - launches));
    wrong.expect(cuda_double::the.questions == questions, "a query or an open was repeated");
    wrong.expect(cuda_double::the.events.size() == events, "the number of events grows");
    wrong.expect(kolo::explain(comm, kolo::kind::allreduce, 4000).choice == "native", "another choice");
    expect_same(wrong, "sum", comm.rank(), y.values(), summed(4, 1000));
  });
}
TEST_CASE("device processes: several devices; devices without peer access are an error that names the ranks") {
  cuda_double::the.devices = 2;
  on_devices({2, 3}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    views_of_every_kind(comm, wrong, s);
    fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum of float");
  });
  cuda_double::the.devices_are_apart = true;
  const auto end = on_device_processes(3, [](auto&, complaints&) {});
  CHECK(end.said[0].find("rank 0 cannot use the device of rank 1: cudaIpcOpenMemHandle: an error (memory that another "
                         "process has on a device") != std::string::npos);
  CHECK(end.said == all_say(3, end.said[0]));
  cuda_double::the.devices_are_apart = false;
  cuda_double::the.devices = 1;
}
TEST_CASE("device processes: another device may be current where a request is waited for and the communicator ends") {
  cuda_double::the.devices = 2;
  on_devices({2}, [](auto& comm, complaints& wrong, cudaStream_t s) {
    progresses_under_another_device(comm, wrong, s);
    kolo::cuda::set_device(1 - kolo::cuda::current_device());  // closes the peer's memory all the same
  });
  cuda_double::the.devices = 1;
}
TEST_CASE("device processes: memory allocated at the address of freed memory is opened anew") {
  on_devices({2}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> kept{of_rank(0, 10), s};
    std::set<const float*> places;
    for (int k = 0; k < 80; ++k) {
      const bool fused = k % 2 == 0;
      tensor<float> x{of_rank(comm.rank() + k, 100), s};
      places.insert(x.data());
      if (fused) kolo::allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.stream = s});
      else kolo::allreduce(comm, x.view(), kolo::sum, kolo::recursive_doubling{}, {.stream = s});
      auto expected = of_rank(0, 100);
      for (auto& v : expected) v *= static_cast<float>(2 * k + 3);
      expect_same(wrong, "sum", comm.rank(), x.values(), expected);
    }
    wrong.expect(cuda_double::the.windows.size() <= 65,
                 "open allocations: " + std::to_string(cuda_double::the.windows.size()));
  });
}
TEST_CASE("device processes: a call waits for its stream only to close freed memory, at most until its timeout") {
  CHECK(opens_while_its_stream_stands(2, true, 0ms).said == all_say(2, ""));
  CHECK(opens_while_its_stream_stands(2, false, 500ms).said == all_say(2, ""));
  CHECK(opens_while_its_stream_stands(3, true, 500ms).said == all_say(3, ""));
}
TEST_CASE("device processes: memory without an IPC handle is refused") {
  on_devices({2}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(comm.rank(), 10), s};
    cuda_double::the.memory.at(reinterpret_cast<std::byte*>(x.data())).is_of_a_pool = true;
    const auto words = words_of([&] { kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s}); });
    wrong.expect(
        words.find("cannot be shown to other processes unless cudaMalloc has allocated it") != std::string::npos,
        words);
    cuda_double::the.memory.at(reinterpret_cast<std::byte*>(x.data())).is_of_a_pool = false;
  });
}
TEST_CASE("device processes: adjacent allocations in a bucket are right; a view across two allocations is refused") {
  struct ranks {
    std::atomic<int> came{0};
  };
  for (const int p : {2, 3}) {
    common<ranks> all;
    on_devices({p}, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
      const auto mine = of_rank(comm.rank(), 1024), expected = summed(comm.size(), 1024);
      for (const auto how : {0, 1, 2}) {
        tensor<float> x{mine, s}, y{mine, s};
        wrong.expect(x.data() + 1024 == y.data(), "the allocations are not adjacent");
        const kolo::bucket both{x.view(), y.view()};
        if (how == 0) kolo::allreduce(comm, both, kolo::sum, {.stream = s});
        if (how == 1) kolo::allreduce(comm, both, kolo::sum, kolo::recursive_doubling{}, {.stream = s});
        if (how == 2) kolo::allreduce(comm, both, kolo::sum, kolo::rabenseifner{}, {.stream = s});
        expect_same(wrong, "first", comm.rank(), x.values(), expected);
        expect_same(wrong, "second", comm.rank(), y.values(), expected);
      }
      tensor<float> x{mine, s}, y{mine, s};
      for (++all->came; all->came < p;) std::this_thread::yield();  // a refusal ends a call that a rank has not left
      const auto words = words_of([&] {
        kolo::allreduce(comm, kolo::device_span<float>{x.data(), 2048}, kolo::sum, kolo::native{}, {.stream = s});
      });
      wrong.expect(words.find("lies in two allocations") != std::string::npos, words);
    });
  }
}
TEST_CASE("device processes: after a failure no peer begins to access a buffer") {
  for (const bool fused : {false, true}) CHECK(withdrawn_after_a_failure(fused).said == all_say(2, ""));
}
TEST_CASE("device processes: after a failure, a peer that is stuck while it opens a buffer is not waited for long") {
  for (const bool fused : {false, true}) CHECK(stopped_while_it_opens(fused).said == all_say(2, ""));
}
TEST_CASE("device processes: destroying a failed communicator waits for no stream") {
  struct steps {
    std::atomic<bool> is_gone{false};
  };
  common<steps> done;
  const auto end = on_device_processes(2, [&](auto& comm, complaints& wrong) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    const auto call = [&] { kolo::allreduce(comm, x.view(), kolo::sum, kolo::recursive_doubling{}, {.stream = s}); };
    call();
    kolo::barrier(comm, {.stream = s});
    comm.transport().wait({.stream = s});
    std::atomic<bool> ends{comm.rank() == 0};
    if (comm.rank() == 1) {
      const cuda_double::guard held{cuda_double::the.lock};
      cuda_double::the.put(s, [&, start = std::chrono::steady_clock::now()] {
        if (!done->is_gone && !is_overdue(start)) throw cuda_double::not_yet{};
        ends = true;
      });
    }
    call();  // rank 0's stream waits for rank 1's
    if (comm.rank() == 0) {
      const auto told = words_of([&] { comm.transport().wait({.timeout = 50ms, .stream = s}); });
      wrong.expect(told.find("has not come to its end") != std::string::npos, "got \"" + told + '"');
      { const auto failed = std::move(comm); }
      done->is_gone = true;
    } else {
      while (!ends) cuda_double::run_everything();
      wrong.expect(done->is_gone, "rank 0 waited for its stream");
    }
  });
  CHECK(end.said == std::vector<std::string>{"2 allocations of others are still open\n", ""});
}
TEST_CASE("device processes: a forked copy of a rank leaves what the rank has published") {
  meeting_point both{2};
  on_devices({2}, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(0, 10), s}, y{std::vector<float>(10), s};
    auto& t = comm.transport();
    t.begin({.stream = s});
    auto message = comm.rank() == 0 ? t.send(1, reinterpret_cast<std::byte*>(x.data()), 40, 7)
                                    : t.receive(0, reinterpret_cast<std::byte*>(y.data()), 40, 7);
    if (comm.rank() == 0) {
      t.submit();
      const ::pid_t copy = ::fork();
      if (copy == 0) {
        { const auto destroyed = std::move(t); }
        ::_exit(0);
      }
      ::waitpid(copy, nullptr, 0);
    }
    both.arrive_and_wait();
    for (kolo::backoff p; !t.done(message);) t.check(p, {.operation = "law", .peer = 1 - comm.rank(), .timeout = 30s});
    if (comm.rank() == 1) expect_same(wrong, "the message", 1, y.values(), of_rank(0, 10));
  });
}
TEST_CASE("device processes: a dead rank is named by all, and shrink continues without it") {
  for (const bool fused : {false, true}) {
    const auto end = on_device_processes(3, [&](auto& comm, complaints& wrong) {
      const kolo::cuda::stream s;
      tensor<float> x{of_rank(comm.rank(), 100), s};
      kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
      comm.transport().wait({.stream = s});
      const auto how = end_of([&] {
        kolo::barrier(comm, {.stream = s});
        comm.transport().wait({.stream = s});
        if (comm.rank() == 1) ::raise(SIGKILL);
        if (fused) kolo::allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.stream = s});
        else kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
      });
      wrong.expect(how == "peer died 1", how);
      comm = comm.shrink({.timeout = 5s});
      kolo::allreduce(comm, x.view(), kolo::max, {.stream = s});
      wrong.expect(comm.size() == 2 && x.values()[1] == 6.0F, "a wrong maximum");
    });
    CHECK(end.said == all_but(1, 3, ""));
    CHECK(end.errors.find("rank 1 was killed by signal 9") != std::string::npos);
    CHECK(end.clean);
  }
}
