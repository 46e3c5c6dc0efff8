// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traces a few collectives and training steps of four ranks; writes the traces of all ranks to one file, for timeline.py or ui.perfetto.dev.
#include <kolo/adapt/chrome_trace.hpp>
#include <kolo/kolo.hpp>
#include <kolo/simulate/simulated.hpp>

#include <cstring>
#include <fstream>
#include <iostream>
#include <vector>

namespace {

constexpr int ranks = 4;

/// Each step computes, twice as long on rank 2 as on others, and exchanges two buckets of gradients: the first during the second half of the
/// computation, the other after it.
template <class C, class Compute>
void train(C& comm, Compute compute) {
  std::vector<float> parameters(60'000, 0.0f), early(40'000, 1.0f), late(20'000, 1.0f);
  kolo::broadcast(comm, parameters, 0, kolo::binomial{});
  const double seconds = comm.rank() == 2 ? 4e-4 : 2e-4;
  for (int step = 0; step < 2; ++step) {
    compute(seconds);
    auto in_flight = kolo::start_allreduce(comm, early, kolo::average, kolo::ring{});
    compute(seconds);
    in_flight.wait();
    kolo::allreduce(comm, late, kolo::average, kolo::recursive_doubling{});
  }
  float loss[1] = {1.0f};
  kolo::allreduce(comm, loss, kolo::average, kolo::one_shot{});
}

/// Trains over a traced `Transport`. Rank 0 writes the merged trace.
template <class Transport, class C, class Compute>
void traced_run(C& whole, Compute compute, const char* file) {
  kolo::communicator<kolo::traced<Transport>> comm{whole.transport().split(0, whole.rank())};
  kolo::watch(comm);
  train(comm, [&](double seconds) { compute(comm, seconds); });
  const std::string trace = kolo::merged_chrome_trace(comm);
  if (comm.rank() != 0) return;
  std::ofstream to{file};
  if (!(to << trace).flush()) throw kolo::error{kolo::errc::system, std::string{"cannot write "} + file};
}

int on_this_host(const char* file) {
  return kolo::shm::launch(ranks, [&](auto& whole) {
    const auto busy = [](auto&, double seconds) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
      while (std::chrono::steady_clock::now() < end) continue;
    };
    traced_run<kolo::shm::transport>(whole, busy, file);
  });
}

int in_virtual_time(const char* file) {
  const kolo::simulate::network gigabit10{.latency = 1e-5, .overhead = 1e-6, .seconds_per_byte = 8e-10};
  kolo::virtual_time::run(ranks, gigabit10, [&](auto& whole) {
    const auto imagined = [](auto& comm, double seconds) { comm.transport().compute(seconds); };
    traced_run<kolo::virtual_time::transport>(whole, imagined, file);
  });
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const bool is_virtual = count == 3 && std::strcmp(arguments[1], "--simulated") == 0;
  if (count != (is_virtual ? 3 : 2) || (!is_virtual && arguments[1][0] == '-')) {
    std::cerr << "Usage: timeline [--simulated] FILE\n"
                 "Writes to FILE the trace of four processes of this host; --simulated: of four ranks in virtual time "
                 "on a network of 10 Gb/s\n";
    return 2;
  }
  try {
    return is_virtual ? in_virtual_time(arguments[2]) : on_this_host(arguments[1]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
