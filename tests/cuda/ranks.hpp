// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads with communicators for device views; tensors on a device; calls that every rank makes on them.
#pragma once

#include <kolo/cuda/on_device.hpp>
#include <kolo/kolo.hpp>

#include "collectives/ranks.hpp"

namespace testing {

/// Runs f(comm) on `ranks` threads; rethrows the cause of their failure.
template <class T, class F>
void run_device_threads(int ranks, kolo::cuda::route route, F f,
                        const kolo::threads::options& o = impatient(usual_slot)) {
  run_threads_over<T>(ranks, f, o, route);
}

/// A tensor on the device, with copies there and back on a stream.
template <class T>
class tensor {
 public:
  tensor(const std::vector<T>& values, cudaStream_t s)
      : memory_{kolo::cuda::allocate(values.size() * sizeof(T))}, size_{values.size()}, stream_{s} {
    kolo::cuda::copy(memory_.get(), values.data(), size_ * sizeof(T), s);
    kolo::cuda::wait(s);
  }
  T* data() { return reinterpret_cast<T*>(memory_.get()); }
  kolo::device_span<T> view() { return {data(), size_}; }
  std::vector<T> values() const {
    std::vector<T> all(size_);
    kolo::cuda::copy(all.data(), memory_.get(), size_ * sizeof(T), stream_);
    kolo::cuda::wait(stream_);
    return all;
  }

 private:
  kolo::cuda::device_memory memory_;
  std::size_t size_;
  cudaStream_t stream_;
};

/// The rank and the text of the failure that ends f, without the call in which this rank got it; "nobody" if f succeeds.
template <class F>
std::string cause_of(F f) {
  try {
    f();
    return "nobody";
  } catch (const kolo::error& e) {
    return "rank " + std::to_string(e.rank()) + ": " + std::string{std::string_view{e.cause().text}};
  }
}

inline std::vector<float> of_rank(int r, std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(r + 1) * static_cast<float>(i % 13);
  return x;
}
inline std::vector<float> summed(int p, std::size_t n) {
  auto x = of_rank(0, n);
  for (auto& v : x) v *= static_cast<float>(p * (p + 1) / 2);
  return x;
}

/// Spans, strided views and buckets, through calls that reduce and calls that move.
template <class C>
void views_of_every_kind(C& comm, complaints& wrong, cudaStream_t s) {
  const int p = comm.size(), r = comm.rank();
  tensor<float> a{of_rank(r, 1000), s}, b{of_rank(r, 600), s};
  kolo::allreduce(comm, a.view(), kolo::sum, {.stream = s});
  expect_same(wrong, "span", r, a.values(), summed(p, 1000));
  const kolo::device_strided<float, 2> columns{b.data(), {150, 1}, {4, 1}};
  kolo::allreduce(comm, columns, kolo::sum, kolo::ring{}, {.stream = s});
  auto expected = of_rank(r, 600);
  for (std::size_t i = 0; i < 600; i += 4) expected[i] = summed(p, 600)[i];
  expect_same(wrong, "strided", r, b.values(), expected);

  tensor<float> c{of_rank(r, 7), s}, d{of_rank(r, 30'000), s};
  kolo::bucket all{c.view(), d.view()};
  auto request = kolo::start_allreduce(comm, all, kolo::sum, {.stream = s});
  request.wait();
  expect_same(wrong, "bucket", r, c.values(), summed(p, 7));
  expect_same(wrong, "bucket", r, d.values(), summed(p, 30'000));
  tensor<float> e{std::vector<float>(static_cast<std::size_t>(7 * p)), s}, f{of_rank(r, 7), s};
  kolo::allgather(comm, f.view(), e.view(), {.stream = s});
  kolo::broadcast(comm, f.view(), p - 1, {.stream = s});
  expect_same(wrong, "broadcast", r, f.values(), of_rank(p - 1, 7));
  const auto parts = e.values();
  expect_same(wrong, "allgather", r, std::vector<float>(parts.end() - 7, parts.end()), of_rank(p - 1, 7));
  tensor<float> g{of_rank(0, 50), s};
  kolo::allreduce(comm, g.view(), kolo::wire<kolo::bfloat16>(kolo::average), kolo::circulant{}, {.stream = s});
  expect_same(wrong, "average in bfloat16", r, g.values(), of_rank(0, 50));
}

/// Work on a stream before and after a call is ordered with the call.
template <class C>
void keeps_the_order_of_streams(C& comm, complaints& wrong, cudaStream_t s) {
  const int p = comm.size(), r = comm.rank();
  const kolo::cuda::stream other;
  tensor<float> x{std::vector<float>(500), s};
  const auto mine = of_rank(r, 500);
  kolo::cuda::copy(x.data(), mine.data(), 2000, s);  // still pending
  kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
  kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = other});
  std::vector<float> got(500);
  kolo::cuda::copy(got.data(), x.data(), 2000, other);
  other.wait();
  auto expected = summed(p, 500);
  for (auto& v : expected) v *= static_cast<float>(p);
  expect_same(wrong, "two streams", r, got, expected);
  auto plan = kolo::plan_allreduce(comm, x.view(), kolo::max, {.stream = s});
  for (int k = 0; k < 3; ++k) plan.run();
  kolo::barrier(comm, {.stream = s});
  expect_same(wrong, "plan", r, x.values(), expected);
}

/// Requests and plans that were made while the communicator's device was current progress while another one is: on a
/// stream, and on the default stream of their device.
template <class C>
void progresses_under_another_device(C& comm, complaints& wrong, cudaStream_t s) {
  const int p = comm.size(), r = comm.rank(), mine = kolo::cuda::current_device();
  tensor<float> x{of_rank(r, 300), s}, y{of_rank(r, 300), s}, z{of_rank(r, 300), s};
  {
    auto request = kolo::start_allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    auto plan = kolo::plan_allreduce(comm, z.view(), kolo::sum, kolo::ring{}, {.stream = s});
    kolo::cuda::set_device(1 - mine);
    request.wait();
    for (int k = 0; k < 4; ++k) plan.run();
    wrong.expect(kolo::cuda::current_device() == 1 - mine, "another device is current afterwards");
    kolo::cuda::set_device(mine);
    auto dropped = kolo::start_allreduce(comm, y.view(), kolo::sum, kolo::ring{}, {.stream = s});
    kolo::cuda::set_device(1 - mine);  // the request's destructor waits
  }
  kolo::cuda::set_device(mine);
  expect_same(wrong, "request", r, x.values(), summed(p, 300));
  expect_same(wrong, "dropped", r, y.values(), summed(p, 300));
  auto four_times = summed(p, 300);
  for (auto& v : four_times) v *= static_cast<float>(p * p * p);
  expect_same(wrong, "plan", r, z.values(), four_times);
}
}  // namespace testing
