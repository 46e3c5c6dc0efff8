// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On a real GPU: reductions give the host's bits; device communicators of threads that share the GPU; speeds. Exit status 77: no GPU.
#include <kolo/cuda/one_kernel.cuh>
#include <kolo/cuda/threads.cuh>

#include "cuda/cccl_calls.hpp"
#include "cuda/on_gpu.hpp"
#include "cuda/one_kernel_calls.hpp"
#include "cuda/threads_calls.hpp"

#include <cstdio>

namespace {

using transport = kolo::cuda::on_device<testing::message_transport>;

template <class F>
int judge(const char* name, F test) {
  testing::complaints wrong;
  try {
    test(wrong);
  } catch (const std::exception& e) {
    wrong.say(std::string{"threw: "} + e.what());
  }
  return testing::verdict(name, wrong.text());
}

template <class F>
void on_threads(testing::complaints& wrong, F each) {
  for (const int p : {1, 2, 3, 4, 8})
    testing::run_device_threads<transport>(p, kolo::cuda::route::staged, [&](auto& comm) {
      kolo::cuda::set_device(0);
      const kolo::cuda::stream s;
      each(comm, wrong, s);
    });
}

/// The same for threads that access each other's device memory.
template <class F>
void on_device_threads(testing::complaints& wrong, F each) {
  for (const int p : {1, 2, 3, 4, 8})
    testing::run_on_devices<kolo::cuda::threads_transport>(p, [&](auto& comm) {
      const kolo::cuda::stream s;
      each(comm, wrong, s);
      comm.transport().wait({.stream = s});
    });
}
void fused(testing::complaints& wrong) {
  on_device_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t s) {
    testing::fused_is_two_shot<float>(comm, w, s, kolo::sum, "sum of float");
    testing::fused_is_two_shot<testing::three_bytes>(comm, w, s, testing::larger_of_three{}, "three bytes");
  });
}
void planned(testing::complaints& wrong) {
  for (const int p : {1, 2, 4, 8})
    testing::run_with_one_kernel(p, [&](auto& host, auto& comm) {
      testing::planned_allreduce(host, comm, wrong, 10'001, kolo::ring{}, kolo::recursive_doubling{});
      testing::planned_alltoall(host, comm, wrong, 1001, kolo::bruck{});
      testing::plans_views_of_every_kind(comm, wrong);
    });
}
void overwritten(testing::complaints& wrong) {
  std::barrier all{3};
  testing::run_on_devices<kolo::cuda::threads_transport>(3, [&](auto& comm) {
    const kolo::cuda::stream s;
    for (const bool is_fused : {false, true}) testing::overwrites_at_once(comm, wrong, s, all, is_fused);
  });
}

using testing::seconds_of;
/// Bytes read and written per second by a copy on the device.
double copy_bandwidth() {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  const auto from = kolo::cuda::allocate(bytes), to = kolo::cuda::allocate(bytes);
  const kolo::cuda::stream s;
  const auto copy = [&] { kolo::cuda::copy(to.get(), from.get(), bytes, s); };
  return 2 * static_cast<double>(bytes) / seconds_of(20, s, copy);
}
/// The slowest rank's time of an in-place allreduce of `bytes`.
template <class Algorithm>
double allreduce_seconds(int p, std::size_t bytes, const Algorithm& algorithm) {
  std::vector<double> seconds(static_cast<std::size_t>(p));
  testing::run_on_devices<kolo::cuda::threads_transport>(
      p,
      [&](auto& comm) {
        kolo::cuda::set_device(0);
        const kolo::cuda::stream s;
        testing::tensor<float> x{std::vector<float>(bytes / sizeof(float)), s};
        const auto call = [&] { kolo::allreduce(comm, x.view(), kolo::sum, algorithm, {.stream = s}); };
        seconds[static_cast<std::size_t>(comm.rank())] = seconds_of(bytes < (1 << 20) ? 500 : 20, s, call);
      },
      std::size_t{64} << 20);
  return *std::max_element(seconds.begin(), seconds.end());
}
/// The slowest rank's time of a plan that runs as one kernel.
template <class Algorithm>
double plan_seconds(int p, std::size_t bytes, const Algorithm& algorithm) {
  std::vector<double> seconds(static_cast<std::size_t>(p));
  testing::run_with_one_kernel(p, [&](auto&, auto& comm) {
    const kolo::cuda::stream s;
    testing::tensor<float> x{std::vector<float>(bytes / sizeof(float)), s};
    auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, algorithm, {.stream = s});
    seconds[static_cast<std::size_t>(comm.rank())] = seconds_of(500, s, [&] { plan.run(); });
  });
  return *std::max_element(seconds.begin(), seconds.end());
}
/// The time of one kernel launched after another.
double launch_seconds() {
  const kolo::cuda::stream s;
  testing::tensor<float> x{std::vector<float>(1), s}, y{std::vector<float>(1), s};
  const auto call = [&] { kolo::cuda::combine(s, x.view(), {x.view(), y.view()}, kolo::sum); };
  return seconds_of(1000, s, call);
}
/// Prints how fast two vectors are combined into a third, also as a share of the copy bandwidth.
template <class T, class Op>
void combine_speed(const char* name, const Op& op, double bandwidth) {
  constexpr std::size_t n = (std::size_t{64} << 20) / sizeof(T);
  const kolo::cuda::stream s;
  testing::tensor<T> a{std::vector<T>(n), s}, b{std::vector<T>(n), s}, c{std::vector<T>(n), s};
  const auto call = [&] { kolo::cuda::combine(s, c.view(), {a.view(), b.view()}, op); };
  const double moved = 3.0 * sizeof(T) * static_cast<double>(n) / seconds_of(50, s, call);
  std::printf("combine, %s: %.0f GB/s, %.0f %% of a copy\n", name, moved / 1e9, 100 * moved / bandwidth);
}
struct quaternion {
  float r, i, j, k;
};
struct quaternion_product {
  KOLO_HOST_DEVICE quaternion operator()(const quaternion& a, const quaternion& b) const {
    return {a.r * b.r - a.i * b.i - a.j * b.j - a.k * b.k, a.r * b.i + a.i * b.r + a.j * b.k - a.k * b.j,
            a.r * b.j - a.i * b.k + a.j * b.r + a.k * b.i, a.r * b.k + a.i * b.j - a.j * b.i + a.k * b.r};
  }
};
void speed() {
  std::printf("a launch: %.1f us\n", 1e6 * launch_seconds());
  const double bandwidth = copy_bandwidth();
  std::printf("copy on the device: %.0f GB/s read and written\n", bandwidth / 1e9);
  combine_speed<float>("float sum", kolo::sum, bandwidth);
  combine_speed<double>("double max", kolo::max, bandwidth);
  combine_speed<kolo::bfloat16>("bfloat16 sum", kolo::sum, bandwidth);
  combine_speed<std::uint8_t>("uint8 max", kolo::max, bandwidth);
  combine_speed<quaternion>("a user's product of quaternions", quaternion_product{}, bandwidth);
  combine_speed<testing::three_bytes>("a user's elements of three bytes", testing::larger_of_three{}, bandwidth);
  for (const int p : {2, 4, 8}) {
    constexpr std::size_t bytes = std::size_t{64} << 20;
    const double bound = 2 * p * static_cast<double>(bytes) / bandwidth,
                 native = allreduce_seconds(p, bytes, kolo::native{});
    std::printf(
        "allreduce of 64 MiB, %d ranks on one GPU: %.0f us, %.0f %% of the bound 2pn / copy (two_shot %.0f us, ring "
        "%.0f us)\n",
        p, native * 1e6, 100 * bound / native, allreduce_seconds(p, bytes, kolo::two_shot{}) * 1e6,
        allreduce_seconds(p, bytes, kolo::ring{}) * 1e6);
    for (const std::size_t small : {512, 4096, 65536})
      std::printf(
          "allreduce of %zu bytes, %d ranks on one GPU: %.1f us; a plan by recursive doubling in one kernel %.1f us\n",
          small, p, allreduce_seconds(p, small, kolo::native{}) * 1e6,
          plan_seconds(p, small, kolo::recursive_doubling{}) * 1e6);
  }
}

}  // namespace

int main(int argc, char**) {
  if (kolo::cuda::devices() == 0) return testing::no_gpu();
  const kolo::cuda::stream s;
  int failed = 0;
  failed += judge("combine, wire conversion and copies give the host's bits",
                  [&](testing::complaints& wrong) { testing::same_bits_as_the_host(wrong, 300'001, s); });
  failed +=
      judge("copies keep their order", [&](testing::complaints& wrong) { testing::copies_keep_their_order(wrong, s); });
  failed += judge("combine of views", [&](testing::complaints& wrong) { testing::combines_views(wrong, s); });
  failed += judge("calls on spans, strided views and buckets, staged", [](testing::complaints& wrong) {
    on_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) {
      testing::views_of_every_kind(comm, w, own);
    });
  });
  failed += judge("stream order, staged", [](testing::complaints& wrong) {
    on_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) {
      testing::keeps_the_order_of_streams(comm, w, own);
    });
  });
  failed += judge("calls on spans, strided views and buckets, between threads", [](testing::complaints& wrong) {
    on_device_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) {
      testing::views_of_every_kind(comm, w, own);
    });
  });
  failed += judge("calls as CCCL's algorithms make them", [](testing::complaints& wrong) {
    on_device_threads(
        wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) { testing::calls_of_cccl(comm, w, own); });
  });
  failed += judge("stream order, between threads", [](testing::complaints& wrong) {
    on_device_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) {
      testing::keeps_the_order_of_streams(comm, w, own);
    });
  });
  failed += judge("peers finish reads and writes before the buffers are reused", overwritten);
  failed += judge("fused allreduce", fused);
  failed += judge("plans as one kernel", planned);
  if (failed == 0 && argc == 1) speed();  // any argument: only the checks
  return failed == 0 ? 0 : 1;
}
