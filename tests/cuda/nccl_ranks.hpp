// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads with communicators over the fake NCCL.
#pragma once

#include "cuda/ranks.hpp"
#include "cuda/settled.hpp"
#include "fake_cuda/nccl.hpp"

#include <kolo/cuda/nccl/nccl.hpp>

#include <stdexcept>
#include <string>

namespace testing {

using namespace std::chrono_literals;

using settled_nccl = settled<kolo::nccl::transport>;

/// Runs f(comm) on `ranks` threads, over a host communicator of them.
template <class T, class F>
void run_nccl_threads(int ranks, F f, std::size_t piece_bytes = usual_slot, bool graphs = true) {
  const auto end = [] {
    const auto misuse = nccl_double::misuse;
    nccl_double::reset();
    if (!misuse.empty()) throw std::logic_error{misuse};
  };
  try {
    kolo::threads::run(
        ranks,
        [&](auto& host) {
          nccl_double::calls.clear();
          kolo::communicator<T> comm{host,
                                     kolo::nccl::options{.timeout = 60s, .piece_bytes = piece_bytes, .graphs = graphs}};
          f(comm);
        },
        impatient(usual_slot));
  } catch (...) {
    end();
    throw;
  }
  end();
}

/// Runs f(comm, wrong, stream) on views in device memory; returns what was wrong.
template <class F>
std::string on_device_ranks(int p, F f, bool graphs = true) {
  cuda_double::the.takes_all_memory = false;
  complaints wrong;
  try {
    run_nccl_threads<kolo::nccl::transport>(
        p,
        [&](auto& comm) {
          const kolo::cuda::stream s;
          f(comm, wrong, s);
        },
        usual_slot, graphs);
  } catch (const std::exception& e) {
    wrong.say(e.what());
  }
  return wrong.text();
}

/// This rank's NCCL calls since the last call of this function, in one line.
inline std::string calls() {
  std::string line;
  for (const auto& c : std::exchange(nccl_double::calls, {})) line += c.substr(4) + ' ';
  return line;
}

struct over_nccl {
  using communicator = kolo::communicator<settled_nccl>;
  template <class F>
  static void run(int p, F f, std::size_t piece_bytes) {
    cuda_double::the.takes_all_memory = true;
    run_nccl_threads<settled_nccl>(p, f, piece_bytes);
  }
};

}  // namespace testing
