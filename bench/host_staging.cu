// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times allreduce of floats on devices, with ranks as threads: reduced on the device, by peer access or through pinned memory, and on the host.
#include <kolo/compose/messages.hpp>
#include <kolo/cuda/host_reduction.hpp>
#include <kolo/cuda/on_device.hpp>
#include <kolo/cuda/threads.cuh>
#include <kolo/kolo.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int warm = 3, repetitions = 15;

/// The median of the slowest rank's seconds, until the sum is on the device.
template <class F>
double seconds(kolo::threads::communicator& host, cudaStream_t s, F call) {
  std::vector<double> all;
  for (int k = 0; k < warm + repetitions; ++k) {
    kolo::barrier(host);
    const auto begin = std::chrono::steady_clock::now();
    call();
    kolo::cuda::wait(s);
    double mine[]{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
    kolo::allreduce(host, mine, kolo::max);
    if (k >= warm) all.push_back(mine[0]);
  }
  std::nth_element(all.begin(), all.begin() + repetitions / 2, all.end());
  return all[repetitions / 2];
}

/// Checks one sum; the same result on all ranks.
bool is_right(kolo::threads::communicator& host, kolo::device_span<float> x, cudaStream_t s, auto call) {
  std::vector<float> values(x.size(), static_cast<float>(host.rank() + 1));
  kolo::cuda::copy(x.data(), values.data(), x.size() * sizeof(float), s);
  call();
  kolo::cuda::copy(values.data(), x.data(), x.size() * sizeof(float), s);
  kolo::cuda::wait(s);
  const auto sum = static_cast<float>(host.size() * (host.size() + 1) / 2);
  int good[]{std::all_of(values.begin(), values.end(), [&](float v) { return v == sum; })};
  kolo::allreduce(host, good, kolo::min);
  return good[0] == 1;
}

void compare(kolo::threads::communicator& host, auto& pinned, bool& all_right) {
  kolo::cuda::set_device(host.rank() % kolo::cuda::devices());
  const kolo::cuda::stream s;
  kolo::cuda::threads_communicator direct{host};
  kolo::cuda::host_reduction by_host{host};
  for (std::size_t n = 1024; n <= std::size_t{16} << 20; n *= 8) {
    const auto memory = kolo::cuda::allocate(n * sizeof(float));
    const kolo::device_span<float> x{reinterpret_cast<float*>(memory.get()), n};
    const auto first = [&] { kolo::allreduce(direct, x, kolo::sum, {.stream = s}); };
    const auto second = [&] { kolo::allreduce(pinned, x, kolo::sum, {.stream = s}); };
    const auto third = [&] { by_host.allreduce(x, kolo::sum, {.stream = s}); };
    const bool right = is_right(host, x, s, first) && is_right(host, x, s, second) && is_right(host, x, s, third);
    const double a = seconds(host, s, first), b = seconds(host, s, second), c = seconds(host, s, third);
    if (host.rank() != 0) continue;
    all_right = all_right && right;
    std::printf("%11zu %14.1f %20.1f %14.1f %9.2f%s\n", n * sizeof(float), 1e6 * a, 1e6 * b, 1e6 * c, c / a,
                right ? "" : "  WRONG");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : std::max(2, kolo::cuda::devices());
  if (kolo::cuda::devices() == 0) {
    std::printf("not run: this process sees no GPU, and %d ranks need one\n", ranks);
    return 77;
  }
  using messages = kolo::messages<kolo::threads::transport>;
  const kolo::detail::shm::region_shape shape{ranks, {}};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  std::printf("%d ranks, %d devices; microseconds, medians of %d\n%11s %14s %20s %14s %9s\n", ranks,
              kolo::cuda::devices(), repetitions, "bytes", "on devices", "by pinned messages", "by the host",
              "/ direct");
  bool all_right = true;
  kolo::threads::run(ranks, [&](kolo::threads::communicator& host) {
    kolo::communicator<kolo::cuda::on_device<messages>> pinned{kolo::cuda::route::staged, memory, region, shape,
                                                               host.rank()};
    compare(host, pinned, all_right);
  });
  return all_right ? 0 : 1;
}
