// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads whose views are in the memory of the fake CUDA runtime.
#pragma once

#include "cuda/ranks.hpp"
#include "cuda/settled.hpp"
#include "fake_cuda/runtime.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"

namespace testing {

/// Messages over threads that access device memory, as a CUDA-aware MPI does.
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

/// The first call of the CUDA function `call` on rank 1 fails, then the second, until there is none left to fail: each time both ranks must throw. run(ends)
/// runs two ranks, each of which calls ends(rank, sum).
template <class F>
void refuse_each(const char* call, F run) {
  bool has_failed = true;
  int failed = 0;
  while (has_failed) {
    std::string said[2];
    run([&](int rank, auto sum) {
      if (rank == 1) cuda_double::fails = {call, failed};
      said[rank] = words_of(sum);
      if (rank == 1) has_failed = std::exchange(cuda_double::fails, {}).name.empty();
      if (said[rank].empty()) said[rank] = words_of(sum);  // the next call fails at the latest
    });
    INFO(call << " " << failed << ": " << said[0] << " / " << said[1]);
    for (const auto& words : said)
      CHECK((has_failed ? words.find(std::string{call} + ": an error") != std::string::npos : words.empty()));
    ++failed;
  }
  CHECK(failed > 1);
}

}  // namespace testing
