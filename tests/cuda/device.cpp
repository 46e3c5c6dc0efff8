// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device communicators on the fake CUDA runtime: laws, views in memory that the host cannot access, streams, refusals.
#include "cuda/on_double.hpp"
#include "cuda/same_bits.hpp"
#include "laws/message_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using kolo::cuda::route;

namespace {

static_assert(kolo::MessageTransport<device_transport> && !kolo::SlotTransport<device_transport>);
static_assert(kolo::space_of<device_transport> == kolo::memory_space::device &&
              kolo::space_of<std::span<float>> == kolo::memory_space::host);
static_assert(kolo::View<kolo::device_span<float>> && kolo::View<kolo::device_strided<float, 2>>);
static_assert(
    std::same_as<decltype(kolo::bucket{kolo::device_span<float>{}}), kolo::bucket<float, kolo::memory_space::device>>);

template <class Law>
std::vector<std::string> in_messages(int p, route r, Law law) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  cuda_double::the.takes_all_memory = true;
  run_device_threads<settled<device_transport>>(
      p, r, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); });
  return said;
}

/// Runs f(comm, wrong, stream) on views in device memory, by both routes.
template <class F>
void on_devices(std::initializer_list<int> sizes, F f, const kolo::threads::options& o = impatient(usual_slot)) {
  cuda_double::the.takes_all_memory = false;
  for (const int p : sizes)
    for (const route r : {route::staged, route::straight}) {
      complaints wrong;
      try {
        run_device_threads<device_transport>(
            p, r,
            [&](auto& comm) {
              const kolo::cuda::stream s;
              f(comm, wrong, s);
            },
            o);
      } catch (const std::exception& e) {
        wrong.say(e.what());
      }
      CHECK(wrong.text() == "");
    }
}

}  // namespace

TEST_CASE("device: the transport laws") {
  for (const int p : {1, 2, 3, 4})
    for (const route r : {route::staged, route::straight}) {
      CHECK(in_messages(p, r, laws::is_constant) == all_say(p, ""));
      CHECK(in_messages(p, r, laws::failure_wakes_everybody) == all_say(p, ""));
      CHECK(in_messages(p, r, laws::split_orders_by_key_and_rank) == all_say(p, ""));
      CHECK(in_messages(p, r, laws::messages_arrive_in_order) == all_say(p, ""));
    }
  for (const route r : {route::staged, route::straight})
    CHECK(in_messages(3, r, laws::another_tag_is_a_mismatch)[0] == "");
}

TEST_CASE("device: combine, wire conversion and copies give the host's bits") {
  complaints wrong;
  cuda_double::the.takes_all_memory = false;
  const kolo::cuda::stream s;
  same_bits_as_the_host(wrong, 333, s);
  combines_views(wrong, s);
  copies_keep_their_order(wrong, s);
  CHECK(wrong.text() == "");
}

TEST_CASE("device: calls on spans, strided views and buckets") {
  on_devices({1, 2, 3, 5},
             [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) { views_of_every_kind(comm, wrong, s); });
}

TEST_CASE("device: work on a stream before and after a call is ordered with the call") {
  on_devices({1, 2, 3}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    keeps_the_order_of_streams(comm, wrong, s);
  });
}

TEST_CASE("device: a new stream with the handle of a destroyed one keeps the order") {
  on_devices({2}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    const kolo::cuda::stream other;
    tensor<float> x{std::vector<float>(500), s};
    const auto mine = of_rank(comm.rank(), 500);
    kolo::cuda::copy(x.data(), mine.data(), 2000, s);
    kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    {  // the effect of destroying `s`, whose work goes on, and of making `other`
      const cuda_double::guard held{cuda_double::the.lock};
      cuda_double::the.streams.at(s) = cuda_double::the.streams.at(other);
    }
    kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    auto expected = summed(2, 500);
    for (auto& v : expected) v *= 2;
    expect_same(wrong, "two sums", comm.rank(), x.values(), expected);
    kolo::barrier(comm, {.stream = s});
  });
}

TEST_CASE("device: topology_of exchanges the nodes on the host while a request is pending") {
  auto o = impatient(usual_slot);
  o.ranks_per_node = 2;
  on_devices(
      {2, 5},
      [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
        tensor<float> x{of_rank(comm.rank(), 3000), s};
        auto request = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
        const auto machine = kolo::topology_of(comm);  // does not wait for the request
        wrong.expect(machine.ranks_per_node == 2, "two ranks a node");
        request.wait();
        expect_same(wrong, "a sum", comm.rank(), x.values(), summed(comm.size(), 3000));
        auto same = comm.split(0, comm.rank());
        const auto refusal = words_of([&] { kolo::topology_of(same, kolo::locality::cache); });
        wrong.expect(refusal.find("views of devices lie in no cache") != std::string::npos, "a cache");
      },
      o);
}

TEST_CASE("device: pinned memory and events are reused") {
  on_devices({2}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> x{of_rank(0, 5000), s};
    const auto call = [&] { kolo::broadcast(comm, x.view(), 0, kolo::binomial{}, {.stream = s}); };
    for (int k = 0; k < 10; ++k) call();
    kolo::barrier(comm, {.stream = s});
    const auto blocks = cuda_double::the.pinned_blocks;
    const auto events = cuda_double::the.events.size();
    kolo::barrier(comm, {.stream = s});
    for (int k = 0; k < 50; ++k) call();
    wrong.expect(cuda_double::the.pinned_blocks <= blocks + 4, "pinned memory grows");
    wrong.expect(cuda_double::the.events.size() <= events + 8, "events grow");
    kolo::barrier(comm, {.stream = s});
  });
}

TEST_CASE("device: a wrong current device, or memory not on the device, is refused with the numbers") {
  cuda_double::the.devices = 2;
  on_devices({1}, [](auto& comm, complaints& wrong, const kolo::cuda::stream& s) {
    tensor<float> here{of_rank(0, 10), s};
    kolo::allreduce(comm, here.view(), kolo::sum, {.stream = s});
    kolo::cuda::set_device(1);
    tensor<float> there{of_rank(0, 10), s};
    const auto said = [&](auto view) {
      return words_of([&] { kolo::allreduce(comm, view, kolo::sum, {.stream = s}); });
    };
    const auto expect = [&](const std::string& words, const std::string& sentence) {
      wrong.expect(words.find(sentence) != std::string::npos, "expected \"" + sentence + "\", not: " + words);
    };
    expect(said(here.view()), "the communicator works on device 0, and the calling thread's current device is 1");
    kolo::cuda::set_device(0);
    expect(said(there.view()), "the communicator works on device 0, and a view lies on device 1");
    expect(said(kolo::bucket{here.view(), there.view()}), "a view lies on device 1");
    std::vector<float> host(10);
    expect(said(kolo::device_span<float>{host.data(), 10}), "memory that CUDA does not know");
    expect(said(here.view()), "");
  });
  cuda_double::the.devices = 1;
}

TEST_CASE("device: requests and plans progress on their device while another one is current") {
  cuda_double::the.devices = 2;
  on_devices({2},
             [](auto& comm, complaints& wrong, cudaStream_t s) { progresses_under_another_device(comm, wrong, s); });
  cuda_double::the.devices = 1;
}

TEST_CASE("device: set_device takes the device of the local rank, or names what is missing") {
  CHECK(kolo::cuda::set_device(0) == 0);
  ::setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  CHECK(words_of([] { kolo::cuda::set_device(2); }) ==
        "kolo: local rank 2 would take device 2, and this process sees 1 device (CUDA_VISIBLE_DEVICES=3)");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  cuda_double::the.devices = 0;
  CHECK(kolo::cuda::devices() == 0);
  CHECK(words_of([] { kolo::cuda::set_device(0); }).find("sees 0 devices (CUDA driver version is insufficient") !=
        std::string::npos);
  cuda_double::the.devices = 1;
}

TEST_CASE("device: CUDA's last error is cleared after a throw, so the next launch succeeds") {
  CHECK_THROWS_AS(kolo::cuda::allocate(std::size_t{1} << 40), kolo::error);
  CHECK(cudaGetLastError() == cudaSuccess);
  cuda_double::the.devices = 0;
  CHECK_THROWS_AS(kolo::cuda::set_device(0), kolo::error);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(kolo::cuda::devices() == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
  cuda_double::the.devices = 1;
}

TEST_CASE("device: a stream that does not reach the operation is this rank's own timeout") {
  cuda_double::the.takes_all_memory = false;
  std::string said;
  CHECK_THROWS_AS(run_device_threads<device_transport>(
                      2, route::staged,
                      [&](auto& comm) {
                        const kolo::cuda::stream s;
                        tensor<float> x{of_rank(0, 10), s};
                        kolo::allreduce(comm, x.view(), kolo::sum, {.stream = s});
                        if (comm.rank() == 0) cuda_double::the.streams.at(s)->is_stuck = true;
                        const std::chrono::milliseconds timeout{comm.rank() == 0 ? 50 : 60'000};
                        const auto mine = words_of(
                            [&] { kolo::allreduce(comm, x.view(), kolo::sum, {.timeout = timeout, .stream = s}); });
                        if (comm.rank() == 0) said = mine;
                        kolo::barrier(comm, {.stream = s});
                      }),
                  kolo::error);
  CHECK(said.find("rank 0: its own stream has not come to the operation") != std::string::npos);
  const auto is_pinned = [](const auto& m) { return m.second.type == cudaMemoryTypeHost; };
  const auto& memory = cuda_double::the.memory;  // freeing it would wait for the stream
  CHECK(std::any_of(memory.begin(), memory.end(), is_pinned));
}
