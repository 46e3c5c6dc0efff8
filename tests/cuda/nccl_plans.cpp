// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans over the fake NCCL: the first run goes call by call, the next is captured, later ones launch the graph; same results, all ranks or none, and graphs end
// before what they refer to.
#include <kolo/point_to_point.hpp>

#include "cuda/nccl_ranks.hpp"
#include "laws/message_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

/// x * factor; small integers, so that sums of sums are exact.
std::vector<float> times(std::vector<float> x, float factor) {
  for (auto& v : x) v *= factor;
  return x;
}

/// Four runs of make(views...)'s plan give the same values as four call(views...).
template <class Make, class Call>
void same_as_calls(complaints& wrong, const char* name, int r, cudaStream_t s, Make make, Call call) {
  tensor<float> a{of_rank(r, 30'007), s}, b{of_rank(r, 300), s}, c{of_rank(r, 30'007), s}, d{of_rank(r, 300), s};
  auto plan = make(a, b);
  for (int k = 0; k < 4; ++k) {
    plan.run();
    call(c, d);
    expect_same(wrong, name, r, a.values(), c.values());
    expect_same(wrong, name, r, b.values(), d.values());
  }
  wrong.expect(plan.how() == "a CUDA graph", std::string{name} + ": " + plan.how());
}

kolo::device_strided<float, 2> columns(tensor<float>& t) { return {t.data(), {75, 1}, {4, 1}}; }

}  // namespace

TEST_CASE("nccl: requests and plans progress on their device while another one is current") {
  cuda_double::the.devices = 2;
  CHECK(on_device_ranks(2, [](auto& comm, complaints& wrong, cudaStream_t s) {
          progresses_under_another_device(comm, wrong, s);
        }) == "");
  cuda_double::the.devices = 1;
}
TEST_CASE("nccl: a plan runs call by call, then is captured, then launched as a graph") {
  for (const int p : {2, 3, 4})
    CHECK(on_device_ranks(p, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
            const int size = comm.size(), r = comm.rank();
            tensor<float> x{of_rank(r, 1000), s};
            auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
            std::string rounds;
            for (int k = 0; k < 2 * (size - 1); ++k) rounds += "GroupStart Send Recv GroupEnd ";
            const std::string asked = "GroupStart AllReduce GroupEnd ";
            auto expected = summed(size, 1000);
            cuda_double::launched = 0;
            calls();
            for (int k = 0; k < 5; ++k) {
              plan.run();
              const auto got = calls();
              wrong.expect(got == (k == 0 ? rounds : k == 1 ? rounds + asked : ""), std::to_string(k) + ": " + got);
              expect_same(wrong, "sum", r, x.values(), expected);
              expected = times(expected, static_cast<float>(size));
            }
            wrong.expect(cuda_double::launched == 4, "launched " + std::to_string(cuda_double::launched) + " times");
            wrong.expect(plan.how() == "a CUDA graph", plan.how());
          }) == "");
}

TEST_CASE("nccl: a plan of one rank is a copy after any number of runs; a plan of an exchange is no graph") {
  CHECK(on_device_ranks(1, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
          tensor<float> x{of_rank(0, 100), s};
          auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, {.stream = s});
          for (int k = 0; k < 3; ++k, plan.run())
            wrong.expect(plan.how() == "a copy, since there is one rank", plan.how());
        }) == "");
  CHECK(on_device_ranks(2, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
          tensor<float> x{of_rank(0, 100), s};
          tensor<float> y{of_rank(0, 100), s};
          auto plan = kolo::plan_exchange(comm, x.view(), y.view(), 1 - comm.rank(), {.stream = s});
          wrong.expect(plan.how() == "call by call", plan.how());
        }) == "");
}

TEST_CASE("nccl: a graph gives the results of calls, for buckets, strided views, wire types and broadcasts") {
  for (const int p : {2, 4})
    CHECK(on_device_ranks(p, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
            const int r = comm.rank();
            same_as_calls(
                wrong, "a bucket, by NCCL", r, s,
                [&](auto& a, auto& b) {
                  kolo::bucket v{a.view(), b.view()};
                  return kolo::plan_allreduce(comm, v, kolo::average, {.stream = s});
                },
                [&](auto& a, auto& b) {
                  kolo::bucket v{a.view(), b.view()};
                  kolo::allreduce(comm, v, kolo::average, {.stream = s});
                });
            same_as_calls(
                wrong, "columns, as bfloat16", r, s,
                [&](auto&, auto& b) {
                  const auto v = columns(b);
                  return kolo::plan_allreduce(comm, v, kolo::wire<kolo::bfloat16>(kolo::average), kolo::two_shot{},
                                              {.stream = s});
                },
                [&](auto&, auto& b) {
                  const auto v = columns(b);
                  kolo::allreduce(comm, v, kolo::wire<kolo::bfloat16>(kolo::average), kolo::two_shot{}, {.stream = s});
                });
            same_as_calls(
                wrong, "a broadcast", r, s,
                [&](auto& a, auto&) {
                  const auto v = a.view();
                  return kolo::plan_broadcast(comm, v, 1, kolo::chain{.segments = 3}, {.stream = s});
                },
                [&](auto& a, auto&) { kolo::broadcast(comm, a.view(), 1, kolo::chain{.segments = 3}, {.stream = s}); });
          }) == "");
}

TEST_CASE("nccl: graphs among calls, other plans and other streams keep their order and their staging") {
  CHECK(on_device_ranks(3, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
          const int r = comm.rank(), p = comm.size();
          const kolo::cuda::stream other;
          tensor<float> x{std::vector<float>(300), s}, large{std::vector<float>(20'000), s};
          const auto view = columns(x);
          const auto mine = of_rank(r, 300);
          auto first = kolo::plan_allreduce(comm, view, kolo::sum, kolo::ring{}, {.stream = s});
          auto second = kolo::plan_allreduce(comm, x.view(), kolo::max, kolo::ring{}, {.stream = other});
          const kolo::device_strided<float, 2> wide{large.data(), {5000, 1}, {4, 1}};
          for (int k = 0; k < 4; ++k) {
            kolo::cuda::copy(x.data(), mine.data(), 1200, s);  // still pending
            first.run();
            if (k == 1) kolo::allreduce(comm, wide, kolo::sum, kolo::ring{}, {.stream = s});  // needs more staging
            kolo::allreduce(comm, view, kolo::sum, kolo::ring{}, {.stream = s});
            second.run();  // waits for the other stream
            auto expected = of_rank(p - 1, 300);
            for (std::size_t i = 0; i < 300; i += 4) expected[i] = summed(p, 300)[i] * static_cast<float>(p);
            std::vector<float> got(300);
            kolo::cuda::copy(got.data(), x.data(), 1200, other);
            other.wait();
            expect_same(wrong, "the second plan", r, got, expected);
          }
          wrong.expect(first.how() == "a CUDA graph" && second.how() == "a CUDA graph", first.how() + second.how());
        }) == "");
}

TEST_CASE("nccl: a restarted request becomes a graph") {
  CHECK(on_device_ranks(2, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
          tensor<float> x{of_rank(comm.rank(), 1000), s};
          const auto view = x.view();
          auto request = kolo::start_allreduce(comm, view, kolo::sum, kolo::ring{}, {.stream = s});
          request.wait();
          cuda_double::launched = 0;
          for (int k = 0; k < 4; ++k) {
            request.restart();
            request.wait();
          }
          wrong.expect(cuda_double::launched == 3, "launched " + std::to_string(cuda_double::launched) + " times");
          expect_same(wrong, "sum", comm.rank(), x.values(), times(summed(2, 1000), 16));
        }) == "");
}

TEST_CASE("nccl: while this thread captures a stream, other operations query events and allocate") {
  const kolo::cuda::stream s, other;
  const kolo::cuda::event passed;
  const auto x = kolo::cuda::allocate(4);
  kolo::cuda::fill(x.get(), 0, 4, other);
  passed.record(other);
  kolo::cuda::capture noted{s};
  kolo::cuda::fill(x.get(), 1, 4, s);
  while (!passed.has_passed()) kolo::cuda::allocate(1);
  noted.end();
}

TEST_CASE("nccl: if one rank cannot capture, no rank launches a graph, and how() gives the reason") {
  for (const bool at_the_end : {false, true}) {
    std::vector<std::string> how(3);
    CHECK(on_device_ranks(3, [&](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
            const int r = comm.rank();
            tensor<float> x{of_rank(r, 1000), s};
            auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
            (at_the_end ? cuda_double::loses_capture : cuda_double::cannot_capture) = r == 1;
            cuda_double::launched = 0;
            for (int k = 0; k < 4; ++k) plan.run();
            wrong.expect(cuda_double::launched == 0, "a graph was launched");
            expect_same(wrong, "sum", r, x.values(), times(summed(3, 1000), 27));
            how[static_cast<std::size_t>(r)] = plan.how();
          }) == "");
    CHECK(how[0] == "call by call: another rank could not capture it");
    CHECK(how[1] == std::string{"call by call: kolo: "} +
                        (at_the_end ? "cudaStreamEndCapture: an error" : "cudaStreamBeginCapture: an error"));
    CHECK(how[2] == how[0]);
  }
  CHECK(on_device_ranks(
            2,
            [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
              tensor<float> x{of_rank(comm.rank(), 100), s};
              auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, {.stream = s});
              cuda_double::launched = 0;
              for (int k = 0; k < 3; ++k) plan.run();
              wrong.expect(cuda_double::launched == 0 &&
                               plan.how() == "call by call: the communicator was made with .graphs = false",
                           plan.how());
            },
            false) == "");
}

TEST_CASE("nccl: graphs are destroyed before their communicator, also if it fails while a plan exists") {
  for (const int runs : {1, 3}) {  // rank 1 does not join the run that captures; or one that launches
    std::vector<std::string> said(2);
    CHECK_THROWS_AS(
        run_nccl_threads<kolo::nccl::transport>(
            2,
            [&](auto& comm) {
              const kolo::cuda::stream s;
              tensor<float> x{of_rank(comm.rank(), 100), s};
              auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.timeout = 1s, .stream = s});
              for (int k = 0; k < runs; ++k) plan.run();
              comm.transport().wait({.stream = s});
              if (comm.rank() == 1)
                said[1] = std::string{std::string_view{laws::end_of_waiting(comm.transport(), 0).text}};
              else said[0] = words_of([&] { plan.run(), comm.transport().wait({.timeout = 1s, .stream = s}); });
              plan.run();
            }),
        kolo::error);
    const std::string late =
        std::string{runs == 1 ? "ncclAllReduce" : "the stream"} + " has not come to its end within 1.000 s";
    for (const auto& words : said) CHECK(words.find(late) != std::string::npos);
    CHECK(cuda_double::graphs.empty());
  }
}
