// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints what this machine offers, and the latency and bandwidth of allreduce among threads and processes. `--quick`: shorter measurements.
#include <kolo/kolo.hpp>

#include "machine.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;

void show(const std::vector<doctor::finding>& findings) {
  for (const auto& f : findings)
    std::printf("  %c %-18s %s\n", f.is_well ? ' ' : '!', f.what.c_str(), f.answer.c_str());
}

/// Seconds per call: doubles the number of calls until they take `enough`, by rank 0's clock.
template <class C, class F>
double seconds_of(C& comm, std::chrono::nanoseconds enough, F call) {
  call();
  for (long calls = 1;; calls *= 2) {
    kolo::barrier(comm);
    const auto start = clock_type::now();
    for (long i = 0; i < calls; ++i) call();
    double seconds = std::chrono::duration<double>(clock_type::now() - start).count();
    kolo::broadcast(comm, std::span{&seconds, 1}, 0);
    if (seconds >= std::chrono::duration<double>(enough).count()) return seconds / static_cast<double>(calls);
  }
}

/// Rank 0 prints the row.
template <class C>
void measure(C& comm, const char* kind, std::chrono::nanoseconds enough) {
  const int p = comm.size();
  constexpr std::size_t n = 4'000'000;
  float one = 1;
  std::vector<float> many(n, 0.0f);
  const double barrier = seconds_of(comm, enough, [&] { kolo::barrier(comm); });
  const double small = seconds_of(comm, enough, [&] { kolo::allreduce(comm, std::span{&one, 1}, kolo::max); });
  const double large = seconds_of(comm, enough, [&] { kolo::allreduce(comm, many, kolo::sum); });
  const double moved = 2.0 * (p - 1) / p * static_cast<double>(n * sizeof(float));
  if (comm.rank() == 0)
    std::printf("    %-10s %5d %14.2f %22.2f %26.2f\n", kind, p, barrier * 1e6, small * 1e6, moved / large / 1e9),
        std::fflush(stdout);
}

int measure_all(std::chrono::nanoseconds enough) {
  std::printf("\n    %-10s %5s %14s %22s %26s\n", "ranks as", "ranks", "barrier, us", "allreduce of 4 B, us",
              "allreduce of 16 MB, GB/s");
  int status = 0;
  for (const int p : {2, 4}) {
    if (p > 2 && p > doctor::usable_cores()) {
      std::printf("    4 ranks: not measured, since there are fewer cores\n");
      break;
    }
    kolo::threads::run(p, [&](auto& comm) { measure(comm, "threads", enough); });
    std::fflush(stdout);
    status |= kolo::shm::launch(p, [&](auto& comm) { measure(comm, "processes", enough); });
  }
  std::printf("    (GB/s: the bus bandwidth of nccl-tests: 2 (p - 1) / p times the bytes, divided by the time)\n");
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
  if (argc > 1 && !quick) return std::fprintf(stderr, "usage: doctor [--quick]\n"), 2;
  std::printf("This machine (! marks a possible problem)\n");
  show(doctor::machine());
  show(doctor::message_passing());
  show(doctor::accelerators());
  try {
    return measure_all(quick ? std::chrono::milliseconds{5} : std::chrono::milliseconds{250});
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
