// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes that open each other's device memory, on the fake CUDA runtime.
#pragma once

#include "cuda/meeting_point.hpp"
#include "cuda/threads_calls.hpp"
#include "fake_cuda/processes.hpp"

#include <kolo/cuda/shm.hpp>
#include <kolo/cuda/shm_transport.hpp>
#include <kolo/point_to_point.hpp>

#include <bit>

namespace testing {

/// Runs f(comm, wrong) in p processes, with the devices assigned in turn. Returns what each found wrong, also memory that it left open.
template <class T = kolo::cuda::shm_transport, class F>
launch_result on_device_processes(int p, F f, std::size_t piece_bytes = usual_slot,
                                  const kolo::shm::options& o = {.timeout = std::chrono::seconds{60}}) {
  cuda_double::common_ground ground;
  return on_processes(
      p,
      [&](auto& host) -> std::string {
        complaints wrong;
        const cuda_double::life life{ground};
        try {
          kolo::cuda::set_device(host.rank() % kolo::cuda::devices());
          kolo::communicator<T> comm{host, kolo::cuda::direct_options{.piece_bytes = piece_bytes}};
          f(comm, wrong);
        } catch (const std::exception& e) {
          wrong.say(std::string{"threw: "} + e.what());
        }
        wrong.expect(cuda_double::the.windows.empty(),
                     std::to_string(cuda_double::the.windows.size()) + " allocations of others are still open");
        return wrong.text();
      },
      o);
}

inline launch_result withdrawn_after_a_failure(bool fused) {
  meeting_point both{2};
  return on_device_processes(2, [&](auto& comm, complaints& wrong) {
    told_after_giving_up(comm, wrong, fused, both, [] { return cuda_double::the.copies + cuda_double::the.launches; });
  });
}

/// Ends a wait of a test before the test is killed.
inline bool is_overdue(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start > std::chrono::seconds{10};
}

/// Rank 1 stops while it opens rank 0's buffer, until rank 0's call has timed out.
inline launch_result stopped_while_it_opens(bool fused) {
  struct steps {
    std::atomic<bool> has_taken{false}, is_told{false}, has_ended{false};
  };
  common<steps> done;
  return on_device_processes(2, [&](auto& comm, complaints& wrong) {
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 100), s};
    std::size_t before = 0;
    const auto work = [] { return cuda_double::the.copies + cuda_double::the.launches; };
    if (comm.rank() == 1)
      cuda_double::the.before_opening = [&] {
        done->has_taken = true;
        for (const auto start = std::chrono::steady_clock::now(); !done->is_told && !is_overdue(start);)
          std::this_thread::yield();
        wrong.expect(done->is_told, "rank 0 waited for it");
        before = work();
      };
    const std::chrono::nanoseconds timeout = comm.rank() == 0 ? std::chrono::milliseconds{50} : std::chrono::minutes{1};
    const auto told = words_of([&] {
      auto request =
          fused ? kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::native{}, {.timeout = timeout, .stream = s})
                : kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::recursive_doubling{},
                                        {.timeout = timeout, .stream = s});
      if (comm.rank() == 0) request.test();  // sends the handle
      while (comm.rank() == 0 && !done->has_taken) std::this_thread::yield();
      request.wait();
    });
    done->is_told = true;
    if (comm.rank() == 1) done->has_ended = true;
    for (const auto start = std::chrono::steady_clock::now(); !done->has_ended && !is_overdue(start);)
      std::this_thread::yield();  // rank 1 still opens memory that this rank would free
    wrong.expect(comm.rank() == 0 || before == work(), "accessed after it was withdrawn");
    wrong.expect(told.find("rank 1 is late") != std::string::npos, "got \"" + told + '"');
    cuda_double::the.before_opening = nullptr;
  });
}

/// An operation on the last rank's stream does not end. Only a call that finds memory freed and allocated again by a peer waits for it, at most until its
/// timeout, and meanwhile enqueues nothing after it. `timeout` 0: many allocations, for which no call waits.
inline launch_result opens_while_its_stream_stands(int p, bool fused, std::chrono::milliseconds timeout) {
  return on_device_processes(p, [&](auto& comm, complaints& wrong) {
    const bool is_last = comm.rank() == comm.size() - 1;
    const kolo::cuda::stream s;
    const auto start = std::chrono::steady_clock::now();
    std::atomic<bool> goes_on{false}, has_gone{false};
    const auto call = [&](tensor<float>& x, std::chrono::nanoseconds longest) {
      if (fused) kolo::allreduce(comm, x.view(), kolo::max, kolo::native{}, {.timeout = longest, .stream = s});
      else if (is_last) kolo::receive(comm, x.view(), 0, {.timeout = longest, .stream = s});
      else kolo::send(comm, x.view(), 1, {.timeout = longest, .stream = s});
    };
    const auto stop = [&] {
      const cuda_double::guard held{cuda_double::the.lock};
      cuda_double::the.put(s, [&, start] {
        if (!goes_on && !is_overdue(start)) throw cuda_double::not_yet{};
        has_gone = true;
      });
    };
    const auto go_on = [&] {
      wrong.expect(!has_gone, "a call waited for the stream");
      goes_on = true;
      s.wait();
    };
    if (timeout == timeout.zero()) {  // many allocations, each at its own address
      std::vector<tensor<float>> all;
      for (int k = 0; k < 80; ++k) all.emplace_back(of_rank(comm.rank(), 100), s);
      if (is_last) stop();
      for (auto& x : all) call(x, {});
      if (is_last) go_on();
      for (auto& x : all) expect_same(wrong, "maximum", comm.rank(), x.values(), of_rank(comm.size() - 1, 100));
      tensor<float> one_more{of_rank(0, 100), s};  // before it is opened, unused memory beyond 64 allocations is closed
      call(one_more, {});
      wrong.expect(cuda_double::the.windows.size() <= 65,
                   "open allocations: " + std::to_string(cuda_double::the.windows.size()));
      return;
    }
    std::optional<tensor<float>> x;  // to be allocated again at the same address
    x.emplace(of_rank(comm.rank(), 100), s);
    const auto* const place = x->data();
    call(*x, {});
    s.wait();
    if (is_last) {
      stop();
    } else if (comm.rank() == comm.size() - 2) {
      x.reset();
      x.emplace(of_rank(comm.rank(), 100), s);
      wrong.expect(place == x->data(), "allocated at another address");
    }
    const auto before = cuda_double::the.waits;
    const auto told = words_of([&] { call(*x, is_last ? timeout : std::chrono::minutes{1}); });
    const auto waits = cuda_double::the.waits - before;
    wrong.expect(told.find("its own stream has not come to the operation within") != std::string::npos,
                 "got \"" + told + '"');
    const auto most = static_cast<std::size_t>(comm.size());  // one for the call before, and one for each peer's reply
    wrong.expect(!is_last || waits <= most, std::to_string(waits) + " waits were enqueued on its stream");
    if (is_last) go_on();
  });
}

/// Sends and receives through device memory, and a call is complete when it returns, so that the tests of host communicators
/// (tests/collectives, tests/laws) run over it unchanged.
class settled_shm : public kolo::cuda::shm_transport {
 public:
  using base = kolo::cuda::shm_transport;
  static constexpr kolo::memory_space space = kolo::memory_space::host;
  using base::base;
  explicit settled_shm(base&& t) : base{std::move(t)} {}
  void begin(const options& o) { base::begin({o.timeout, stream_}); }
  void flush() {
    base::flush();
    synchronize();
  }
  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    synchronize();
    auto* const room = take_room(bytes);
    kolo::cuda::copy(room, data, bytes, stream_);
    stream_.wait();
    return in_flight_.emplace_back(message{base::send(peer, room, bytes, tag), room, nullptr, bytes}).by;
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    auto* const room = take_room(bytes);
    return in_flight_.emplace_back(message{base::receive(peer, room, bytes, tag), room, data, bytes}).by;
  }
  bool done(const ticket& t) {
    if (!base::done(t)) return false;
    synchronize();
    const auto is_it = [&](const message& m) {
      return m.by.outgoing == t.outgoing && m.by.peer == t.peer && m.by.number == t.number;
    };
    const auto mine = std::find_if(in_flight_.begin(), in_flight_.end(), is_it);
    if (mine == in_flight_.end()) return true;
    if (mine->to) kolo::cuda::copy(mine->to, mine->room, mine->bytes, stream_);
    stream_.wait();
    free_.insert({std::bit_ceil(mine->bytes), mine->room});
    in_flight_.erase(mine);
    return true;
  }
  settled_shm split(int color, int key) { return settled_shm{base::split(color, key)}; }

 private:
  struct message {
    ticket by;
    std::byte *room, *to;
    std::size_t bytes;
  };
  std::byte* take_room(std::size_t bytes) {
    if (const auto known = free_.find(std::bit_ceil(bytes)); known != free_.end()) return free_.extract(known).mapped();
    return rooms_.emplace_back(kolo::cuda::allocate(std::bit_ceil(bytes))).get();
  }
  void synchronize() {
    base::executor();  // flushes the pending copies
    stream_.wait();
    kolo::cuda::wait(nullptr);  // work that the laws enqueue themselves, on the default stream
  }

  kolo::cuda::stream stream_{};
  std::vector<kolo::cuda::device_memory> rooms_{};
  std::multimap<std::size_t, std::byte*> free_{};  ///< by length
  std::vector<message> in_flight_{};
};

}  // namespace testing
