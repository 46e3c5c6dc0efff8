// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of a trace while it is on, and of the flight recorder, which is always on: calls of 2 processes with and without, alternating.
// Usage: kolo_bench_recording [ROUNDS]
#include <kolo/launch/processes.hpp>
#include <kolo/os/tsc_clock.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "clock.hpp"
#include "driver/statistics.hpp"
#include "recording/subject.hpp"

namespace {

using kolo_bench::subject, kolo_bench::quantile;

struct row {
  const char* what;
  subject &off, &on;
  std::vector<std::size_t> bytes;
};

/// Prints the nanoseconds of a call without and with it, batch by batch alternating; the order changes from turn to turn.
void compare(const row& r, std::size_t bytes, int rounds, bool prints) {
  const int calls = static_cast<int>(std::clamp(2e-4 / (2e-7 + 1e-10 * static_cast<double>(bytes)), 1.0, 1000.0));
  std::vector<double> off, on, ratio;
  for (int k = -2; k < rounds; ++k) {
    double took[2];
    for (const int turn : {k & 1, 1 - (k & 1)})
      took[turn] = (turn == 0 ? r.off : r.on).seconds(bytes, calls) / calls * 1e9;
    if (k < 0) continue;
    off.push_back(took[0]), on.push_back(took[1]), ratio.push_back(took[1] / took[0]);
  }
  if (!prints) return;
  const auto percent = [](double x) { return 100 * (x - 1); };
  std::printf("%-16s %8zu B %12.1f ns %12.1f ns %+7.1f %%  (quartiles %+.1f ... %+.1f %%; fastest tenth %+.1f %%)\n",
              r.what, bytes, quantile(off, 0.5), quantile(on, 0.5), percent(quantile(ratio, 0.5)),
              percent(quantile(ratio, 0.25)), percent(quantile(ratio, 0.75)),
              percent(quantile(on, 0.1) / quantile(off, 0.1)));
  std::fflush(stdout);
}

/// The minimum time of f, called `calls` times in a loop: a lower bound of its cost in a call.
template <class F>
double alone(F f) {
  constexpr int calls = 1'000'000;
  double least = 1e9;
  for (int k = 0; k < 10; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 1; i <= calls; ++i) f(static_cast<std::uint64_t>(i));
    least =
        std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls * 1e9);
  }
  return least;
}

/// Rank 0 prints the cost of the parts alone.
void take_apart() {
  kolo::detail::os::tsc_clock clock;
  kolo::detail::transport::flight_recorder recorder;
  const kolo::detail::transport::operation_summary what{kolo::kind::allreduce, 1, 8};
  volatile std::int64_t seen = 0;
  const double reading = alone([&](std::uint64_t) { seen = clock.now(); });
  const double noting = alone([&](std::uint64_t i) { recorder.begin(i, what), recorder.end(i, what); });
  std::printf(
      "alone: a reading of the trace's clock %.1f ns, a few for each call; begin and end of a call in the "
      "flight recorder %.1f ns\n",
      reading, noting);
  std::printf(
      "\"the same again\" is the same code at other addresses: smaller differences than its own mean nothing\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  const auto cores = kolo_bench::cores();
  ::setenv("KOLO_JOB", ("recording-" + std::to_string(::getpid())).c_str(), 1);
  ::setenv("KOLO_SIZE", "2", 1);
  return kolo::shm::launch(2, [&](auto& comm) {
    ::setenv("KOLO_RANK", std::to_string(comm.rank()).c_str(), 1);
    kolo_bench::pin(cores[static_cast<std::size_t>(comm.rank()) % cores.size()]);
    const auto plain = kolo_bench::as_it_is(), again = kolo_bench::compiled_again(), traced = kolo_bench::with_trace(),
               bare = kolo_bench::without_recorder();
    if (comm.rank() == 0) take_apart(), std::printf("%-16s %10s %15s %15s\n", "", "allreduce", "without", "with");
    for (const row& r : {row{"the same again", *plain, *again, {8, 1024, 16384}},
                         row{"trace", *plain, *traced, {8, 1024, 65536, 4 << 20}},
                         row{"flight recorder", *bare, *plain, {8, 1024, 16384}}})
      for (const std::size_t bytes : r.bytes) compare(r, bytes, rounds, comm.rank() == 0);
  });
}
