// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads whose views lie on a device that the double of the CUDA runtime stands for.
#pragma once

#include "cuda/ranks.hpp"
#include "cuda/settled.hpp"
#include "fake_cuda/runtime.hpp"

namespace testing {

/// Messages over threads, as an MPI has them that reads and writes the memory of devices.
class seeing_messages : public message_transport {
 public:
  using message_transport::message_transport;
  explicit seeing_messages(message_transport&& t) : message_transport{std::move(t)} {}
  void submit() {
    const cuda_double::eyes open;
    message_transport::submit();
  }
  bool done(const ticket& t) {
    const cuda_double::eyes open;
    return message_transport::done(t);
  }
  seeing_messages split(int color, int key) { return seeing_messages{message_transport::split(color, key)}; }
};

using device_transport = kolo::cuda::on_device<seeing_messages>;

template <kolo::cuda::route Route>
struct over_device {
  using communicator = kolo::communicator<settled<device_transport>>;
  template <class F>
  static void run(int p, F f, std::size_t slot_bytes) {
    cuda_double::the.takes_all_memory = true;
    run_device_threads<settled<device_transport>>(p, Route, f, impatient(slot_bytes));
  }
};

}  // namespace testing
