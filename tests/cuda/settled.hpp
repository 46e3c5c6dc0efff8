// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport for device views that accepts host views, so that the tests of host communicators (tests/collectives, tests/laws) run over it unchanged.
#pragma once

#include <kolo/cuda/runtime.hpp>
#include <kolo/view/memory.hpp>

#include <utility>

namespace testing {

/// Host memory counts as device memory (see cuda_double::machine::takes_all_memory), and a call is complete when it returns.
template <class Wire>
class settled : public Wire {
 public:
  static constexpr kolo::memory_space space = kolo::memory_space::host;
  using typename Wire::options;
  using Wire::Wire;
  explicit settled(Wire&& w) : Wire{std::move(w)} {}
  void begin(const options& o) { Wire::begin({o.timeout, stream_}); }
  void flush() {
    Wire::flush();
    stream_.wait();
  }
  template <class Ticket>
  bool done(Ticket& t) {
    if (!Wire::done(t)) return false;
    stream_.wait();
    kolo::cuda::wait(nullptr);  // work that the laws enqueue themselves, on the default stream
    return true;
  }
  settled split(int color, int key) { return settled{Wire::split(color, key)}; }

 private:
  kolo::cuda::stream stream_{};
};

}  // namespace testing
