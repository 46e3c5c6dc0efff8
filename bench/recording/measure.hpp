// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The timed code: a number of allreduces of a length, by one kind of communicator. Three source files include it, with different headers before.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/observe/traced.hpp>

#include <chrono>
#include <vector>

#include "recording/subject.hpp"

namespace {

template <class Transport>
class timed : public kolo_bench::subject {
 public:
  explicit timed(kolo::shm::transport&& wire) : comm_{std::move(wire)} {
    if constexpr (requires { comm_.transport().log(); }) kolo::watch(comm_);
  }
  double seconds(std::size_t bytes, int calls) override {
    x_.assign(bytes / sizeof(float), 1.0f);
    kolo::barrier(comm_);
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < calls; ++k) kolo::allreduce(comm_, x_, kolo::max);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  kolo::communicator<Transport> comm_;
  std::vector<float> x_;
};

}  // namespace
