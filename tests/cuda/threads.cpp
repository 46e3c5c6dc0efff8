// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks in one process on the fake CUDA runtime: laws, stream order, memory after failures, reuse of events.
#include <kolo/explain.hpp>

#include "cuda/cccl_calls.hpp"
#include "cuda/on_double.hpp"
#include "cuda/threads_ranks.hpp"
#include "laws/message_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

static_assert(kolo::MessageTransport<settled_threads> && !kolo::SlotTransport<settled_threads>);

template <class Law>
std::vector<std::string> in_messages(int p, Law law) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  cuda_double::the.takes_all_memory = true;
  run_on_devices<settled_threads>(
      p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); });
  return said;
}

/// Runs f(comm, wrong, stream) on views in device memory.
template <class F>
void on_devices(std::initializer_list<int> sizes, F f) {
  cuda_double::the.takes_all_memory = false;
  for (const int p : sizes) {
    complaints wrong;
    try {
      run_on_devices<kolo::cuda::threads_transport>(p, [&](auto& comm) {
        const kolo::cuda::stream s;
        f(comm, wrong, s);
      });
    } catch (const std::exception& e) {
      wrong.say(e.what());
    }
    CHECK(wrong.text() == "");
  }
}

}  // namespace

TEST_CASE("device threads: the transport laws") {
  for (const int p : {1, 2, 3, 4, 8}) {
    CHECK(in_messages(p, laws::is_constant) == all_say(p, ""));
    CHECK(in_messages(p, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(in_messages(p, laws::split_orders_by_key_and_rank) == all_say(p, ""));
    CHECK(in_messages(p, laws::messages_arrive_in_order) == all_say(p, ""));
  }
}
TEST_CASE("device threads: another tag is a mismatch") {
  const auto law = [](auto& t) -> std::string {
    try {
      return laws::another_tag_is_a_mismatch(t);
    } catch (const kolo::error& e) {  // the sender, whose message was not read
      return t.rank() == 2 && e.code() == kolo::errc::mismatch ? "" : e.what();
    }
  };
  CHECK(in_messages(3, law) == all_say(3, ""));
}
TEST_CASE("device threads: calls on spans, strided views and buckets") {
  on_devices({1, 2, 3, 5, 8},
             [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) { views_of_every_kind(comm, wrong, s); });
}
TEST_CASE("device threads: calls as CCCL's algorithms make them") {
  on_devices({1, 2, 3, 4, 8}, [](auto& comm, complaints& wrong, cudaStream_t s) { calls_of_cccl(comm, wrong, s); });
}
TEST_CASE("device threads: a part that is in place is not copied onto itself") {
  on_devices({1}, [](auto& comm, complaints& wrong, cudaStream_t s) {
    tensor<float> x{of_rank(0, 10), s};
    const kolo::cccl_communicator c{comm};
    const std::size_t count = 4, place = 3;
    const auto before = cuda_double::the.copies;
    auto guard = c.group_guard();
    c.all_gather_v(guard, x.data() + place, count, x.data(), &count, &place, stream_of{s});
    guard.wait();
    kolo::cuda::wait(s);
    wrong.expect(cuda_double::the.copies == before, "copied");
  });
}
TEST_CASE("device threads: work on a stream before and after a call is ordered with the call") {
  on_devices({1, 2, 3}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    keeps_the_order_of_streams(comm, wrong, s);
  });
}
TEST_CASE("device threads: a buffer is not overwritten before all peers have read and written it") {
  for (const bool fused : {false, true}) {
    std::barrier all{3};
    on_devices({3}, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
      overwrites_at_once(comm, wrong, s, all, fused);
    });
  }
}

TEST_CASE("device threads: the parts of a fused allreduce cover the vector") {
  bool all = true;
  for (int p = 1; p <= 8; ++p)
    for (std::size_t unit = 1; unit <= 16; unit *= 2)
      for (std::size_t n = 0; n < 300; ++n) {
        std::size_t next = 0;
        for (int r = 0; r < p; ++r) {
          const auto part = kolo::detail::cuda::fused_part(n, p, r, unit);
          all = all && (part.count == 0 || (part.first == next && part.first % unit == 0));
          next += part.count;
        }
        all = all && next == n;
      }
  CHECK(all);
}
TEST_CASE("device threads: native allreduce has the bits of two_shot") {
  on_devices({1, 2, 3, 4, 5, 6, 7, 8}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum of float");
    fused_is_two_shot<kolo::float16>(comm, wrong, s, kolo::average, "average of float16");
    fused_is_two_shot<double>(comm, wrong, s, scaled_or_first{1.5F}, "an operator that does not commute");
    fused_is_two_shot<three_bytes>(comm, wrong, s, larger_of_three{}, "three bytes");
  });
}
TEST_CASE("device threads: the default allreduce is one kernel per rank") {
  on_devices({4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(comm.rank(), 1000), s};
    kolo::barrier(comm, {.stream = s});
    const auto before = cuda_double::the.launches;
    kolo::barrier(comm, {.stream = s});
    kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
    kolo::barrier(comm, {.stream = s});
    wrong.expect(cuda_double::the.launches == before + 4,
                 "launches: " + std::to_string(cuda_double::the.launches - before));
    expect_same(wrong, "sum", comm.rank(), x.values(), summed(4, 1000));
  });
}
TEST_CASE("device threads: several devices; without peer access the native allreduce is refused") {
  cuda_double::the.devices = 2;
  on_devices({2, 3, 4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    views_of_every_kind(comm, wrong, s);
    fused_is_two_shot<float>(comm, wrong, s, kolo::sum, "sum of float");
  });
  CHECK(cuda_double::the.reached == std::set<std::pair<int, int>>{{0, 1}, {1, 0}});
  cuda_double::the.devices_are_apart = true;
  on_devices({2}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(comm.rank(), 100), s};
    kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
    expect_same(wrong, "sum", comm.rank(), x.values(), summed(2, 100));
    const auto words = words_of([&] { kolo::allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.stream = s}); });
    wrong.expect(words.find("not all devices of this process can access each other's memory") != std::string::npos,
                 words);
    wrong.expect(kolo::explain(comm, kolo::kind::allreduce, 400).choice != "native", "native was chosen");
  });
  cuda_double::the.devices_are_apart = false;
  cuda_double::the.devices = 1;
}

TEST_CASE(
    "device threads: a copy between devices is direct where CUDA allows that, and else staged in the host's memory") {
  cuda_double::the.devices = 2;
  for (const bool are_apart : {false, true}) {
    cuda_double::the.devices_are_apart = are_apart;
    cuda_double::the.reached.clear();
    const auto before = cuda_double::the.staged;
    on_devices({4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
      tensor<float> x{of_rank(comm.rank(), 100), s};
      kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
      expect_same(wrong, "sum", comm.rank(), x.values(), summed(4, 100));
    });
    CHECK((cuda_double::the.staged > before) == are_apart);
  }
  cuda_double::the.devices_are_apart = false;
  cuda_double::the.devices = 1;
}
TEST_CASE("device threads: requests and plans progress on their device while another one is current") {
  cuda_double::the.devices = 2;
  on_devices({2, 4},
             [](auto& comm, complaints& wrong, cudaStream_t s) { progresses_under_another_device(comm, wrong, s); });
  cuda_double::the.devices = 1;
}

TEST_CASE("device threads: peer access is queried once") {
  cuda_double::the.devices = 2;
  on_devices({4}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(0, 100), s}, y{of_rank(0, 100), s};
    const auto calls = [&] {
      kolo::allreduce(comm, x.view(), kolo::max, {.stream = s});
      kolo::allreduce(comm, y.view(), kolo::max, kolo::native{}, {.stream = s});
      kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    };
    calls();
    const int questions = cuda_double::the.questions;
    kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    for (int k = 0; k < 5; ++k) calls();
    wrong.expect(questions == cuda_double::the.questions,
                 std::to_string(cuda_double::the.questions - questions) + " more queries");
    kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    wrong.expect(kolo::explain(comm, kolo::kind::allreduce, 400).choice == "native",
                 kolo::explain(comm, kolo::kind::allreduce, 400).message());
  });
  cuda_double::the.devices = 1;
}

TEST_CASE("device threads: events are reused") {
  on_devices({3}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(0, 500), s};
    const auto calls = [&] {
      for (int k = 0; k < 20; ++k)
        kolo::allreduce(comm, x.view(), kolo::max, kolo::ring{}, {.stream = s}),
            kolo::allreduce(comm, x.view(), kolo::max, {.stream = s});
      kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    };
    calls();
    const auto events = cuda_double::the.events.size();
    kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
    calls();
    wrong.expect(cuda_double::the.events.size() == events, "the number of events grows");
    kolo::barrier(comm, kolo::one_shot{}, {.stream = s});
  });
}

TEST_CASE("device threads: after a failure no peer begins to access a buffer") {
  cuda_double::the.takes_all_memory = false;
  complaints wrong;
  for (const bool fused : {false, true}) is_not_touched_after_a_failure(wrong, fused);
  CHECK(wrong.text() == "");
}
TEST_CASE("device threads: a native allreduce ends after the last reply") {
  std::barrier all{3};
  on_devices({3}, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    ends_with_the_last_answer(comm, wrong, s, all);
  });
}
TEST_CASE("device threads: a failed CUDA call on one rank is an error on all ranks") {
  for (const char* const call : {"cudaEventRecord", "cudaMemcpyAsync", "cudaGetDevice", "cudaPointerGetAttributes"})
    for (const bool is_started : {false, true})
      refuse_each(call, [&](auto ends) {
        run_on_devices<kolo::cuda::threads_transport>(2, [&](auto& comm) {
          const kolo::cuda::stream s;
          tensor<float> x{of_rank(comm.rank(), 100), s};
          ends(comm.rank(), [&] {
            if (!is_started) return kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
            auto request = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
            if (words_of([&] { request.wait(); }).empty()) return;
            request.wait();
            throw std::runtime_error{"a failed request succeeded on the second wait"};
          });
        });
      });
}
TEST_CASE("device threads: wait on another stream leaves a pending call on its own stream, also if it throws") {
  std::barrier both{2};
  for (const bool throws : {false, true})
    on_devices({2}, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
      const kolo::cuda::stream other;
      tensor<float> x{of_rank(comm.rank(), 100), s};
      auto request = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
      if (comm.rank() == 0) {
        request.test();
        if (throws) cuda_double::fails = {"cudaEventRecord"};
        const auto said = words_of([&] { kolo::cuda::wait(comm, {.stream = other}); });
        wrong.expect(said.empty() != throws, said);
      }
      both.arrive_and_wait();
      request.wait();
      expect_same(wrong, "sum", comm.rank(), x.values(), summed(2, 100));
    });
}
TEST_CASE("device threads: a stuck stream is a timeout, and shrink continues without its rank") {
  cuda_double::the.takes_all_memory = false;
  std::vector<std::string> said(3);
  CHECK_THROWS_AS(run_on_devices<kolo::cuda::threads_transport>(
                      3,
                      [&](auto& comm) {
                        const int r = comm.rank();
                        const kolo::cuda::stream s, stuck;
                        tensor<float> x{of_rank(r, 10), s};
                        kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
                        comm.transport().wait({.stream = s});
                        kolo::barrier(comm, {.stream = s});
                        if (r == 2) {
                          cuda_double::the.streams.at(stuck)->is_stuck = true;
                          kolo::cuda::fill(x.data(), 0, 40, stuck);
                          comm.transport().wait({.timeout = 50ms, .stream = stuck});
                        }
                        said[static_cast<std::size_t>(r)] = words_of([&] { kolo::barrier(comm, {.stream = s}); });
                        comm = comm.shrink({.timeout = 5s});
                        kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
                        if (comm.size() != 2 || x.values()[1] != 12.0F)
                          said[static_cast<std::size_t>(r)] += "; a wrong sum";
                      }),
                  kolo::error);
  CHECK(said[0].find("its own stream has not come to its end within 0.05") != std::string::npos);
  CHECK(said[1] == said[0]);
}
TEST_CASE("device threads: a failure found only by a request's destructor is the host communicator's failure") {
  const auto said = words_of([] {
    run_on_devices<kolo::cuda::threads_transport>(2, [](auto& comm) {
      const kolo::cuda::stream s;
      tensor<float> x{of_rank(comm.rank(), 10), s};
      if (comm.rank() == 0) auto dropped = kolo::start_allreduce(comm, x.view(), kolo::sum, {.stream = s});
    });
  });
  CHECK(said.find("rank 1 has destroyed its communicator, and is still waited for") != std::string::npos);
}

TEST_CASE("device threads: checked ranks get the mismatch") {
  cuda_double::the.takes_all_memory = false;
  std::vector<std::string> said(3);
  auto o = impatient(usual_slot);
  o.checked = true;
  run_on_devices<kolo::cuda::threads_transport>(
      3,
      [&](auto& comm) {
        const kolo::cuda::stream s;
        tensor<float> x{of_rank(comm.rank(), 10), s}, y{of_rank(comm.rank(), 11), s};
        kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
        said[static_cast<std::size_t>(comm.rank())] =
            words_of([&] { kolo::allreduce(comm, comm.rank() == 2 ? y.view() : x.view(), kolo::sum, {.stream = s}); });
      },
      usual_slot, o);
  CHECK(said[0].find("the count differs: rank 0 calls allreduce of 10 float, sum, at threads.cpp:") !=
        std::string::npos);
  CHECK(said == all_say(3, said[0]));
}
TEST_CASE("device threads: run_threads makes the communicators; without a GPU it throws") {
  cuda_double::the.takes_all_memory = false;
  complaints wrong;
  kolo::cuda::run_threads(2, [&](auto& comm) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 10), s};
    kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
    expect_same(wrong, "sum", comm.rank(), x.values(), summed(2, 10));
  });
  CHECK(wrong.text() == "");
  cuda_double::the.devices = 0;
  CHECK(words_of([] { kolo::cuda::run_threads(2, [](auto&) {}); }).find("needs a GPU and its driver") !=
        std::string::npos);
  cuda_double::the.devices = 1;
}
