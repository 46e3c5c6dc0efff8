// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes that open each other's memory on devices, which the double of the CUDA runtime stands for.
#pragma once

#include "cuda/meeting_point.hpp"
#include "cuda/threads_calls.hpp"
#include "fake_cuda/processes.hpp"

#include <kolo/cuda/shm.hpp>
#include <kolo/cuda/shm_transport.hpp>

#include <bit>

namespace testing {

/// f(comm, wrong) in p processes, one after the other on a device each. What they found wrong; nobody keeps anything open.
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

/// What is sent and received goes through memory of the device, and a call has happened when it returns: so tests that were written for the host run as they are.
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
    return under_way_.emplace_back(message{base::send(peer, room, bytes, tag), room, nullptr, bytes}).by;
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    auto* const room = take_room(bytes);
    return under_way_.emplace_back(message{base::receive(peer, room, bytes, tag), room, data, bytes}).by;
  }
  bool done(const ticket& t) {
    if (!base::done(t)) return false;
    synchronize();
    const auto is_it = [&](const message& m) {
      return m.by.outgoing == t.outgoing && m.by.peer == t.peer && m.by.number == t.number;
    };
    const auto mine = std::find_if(under_way_.begin(), under_way_.end(), is_it);
    if (mine == under_way_.end()) return true;
    if (mine->to) kolo::cuda::copy(mine->to, mine->room, mine->bytes, stream_);
    stream_.wait();
    free_.insert({std::bit_ceil(mine->bytes), mine->room});
    under_way_.erase(mine);
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
    base::executor();  // copies that wait on the tray
    stream_.wait();
    kolo::cuda::wait(nullptr);  // what the laws do by themselves
  }

  kolo::cuda::stream stream_{};
  std::vector<kolo::cuda::device_memory> rooms_{};
  std::multimap<std::size_t, std::byte*> free_{};  ///< by length
  std::vector<message> under_way_{};
};

}  // namespace testing
