// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// combine, conversion and copy on a device, compared bit by bit with the host's kernels in the same order.
#pragma once

#include <kolo/cuda/combine.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include "cuda/ranks.hpp"

namespace testing {

/// Three bytes, so that nothing is aligned; the operator returns the larger value.
struct three_bytes {
  unsigned char x[3];
};
struct larger_of_three {
  KOLO_HOST_DEVICE static int value(const three_bytes& t) { return t.x[0] + 256 * t.x[1] + 65536 * t.x[2]; }
  KOLO_HOST_DEVICE three_bytes operator()(const three_bytes& a, const three_bytes& b) const {
    return value(a) < value(b) ? b : a;
  }
};
/// An operator with state, for any type that can be multiplied and compared. It does not commute.
struct scaled_or_first {
  static constexpr bool commutative = false;
  float factor;
  template <class T>
  KOLO_HOST_DEVICE T operator()(const T& a, const T& b) const {
    return a < b ? static_cast<T>(b * static_cast<T>(factor)) : a;
  }
};

/// Numbers of many magnitudes and both signs; no NaN, whose bits are unspecified.
template <class T>
T number(std::size_t i) {
  const auto bits = static_cast<std::uint32_t>(i * 2654435761u + 40503u);
  if constexpr (std::is_same_v<T, three_bytes>)
    return {{static_cast<unsigned char>(bits >> 24), static_cast<unsigned char>(bits >> 9),
             static_cast<unsigned char>(bits)}};
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(bits);
  else
    return static_cast<T>((static_cast<float>(bits >> 8) / 65536.0F - 128.0F) / static_cast<float>(1 << (bits % 12)));
}

/// Host memory and device memory with the same bytes, for sources and results.
class both_memories {
 public:
  explicit both_memories(std::size_t bytes) : host(bytes), device_{kolo::cuda::allocate(bytes)} {
    for (std::size_t i = 0; i < bytes; ++i) host[i] = static_cast<std::byte>(i * 7);
  }
  void to_device(cudaStream_t s) const {
    kolo::cuda::copy(device(), host.data(), host.size(), s);
    kolo::cuda::wait(s);
  }
  std::vector<std::byte> from_device(cudaStream_t s) const {
    std::vector<std::byte> all(host.size());
    kolo::cuda::copy(all.data(), device(), all.size(), s);
    kolo::cuda::wait(s);
    return all;
  }
  std::byte* device() const { return device_.get(); }

  std::vector<std::byte> host;

 private:
  kolo::cuda::device_memory device_;
};

/// combine, to_wire, from_wire and round of `count` elements of T, at an offset of `shift` elements, from `n` sources.
template <class T, class Op>
void compare(complaints& wrong, const std::string& name, const Op& op, std::size_t count, std::size_t shift, int n,
             cudaStream_t s) {
  using executor = kolo::cuda::device_executor;
  const kolo::kernel k = kolo::make_kernel<T>(op), on_gpu = executor::make_kernel<T>(op);
  const std::size_t part = ((count + shift) * sizeof(T) + 255) / 256 * 256, before = shift * sizeof(T);
  both_memories m{part * static_cast<std::size_t>(n + 2)};
  std::vector<kolo::source> on_host, on_device;
  for (int i = 0; i < n; ++i) {
    const bool on_wire = k.to_wire && i % 2 == 1;
    const auto at = part * static_cast<std::size_t>(i) + before;
    std::vector<T> x;
    for (std::size_t j = 0; j < count; ++j) x.push_back(number<T>(j * 17 + static_cast<std::size_t>(i)));
    if (on_wire) k.to_wire(m.host.data() + at, reinterpret_cast<const std::byte*>(x.data()), nullptr, count);
    else if (count > 0) std::memcpy(m.host.data() + at, x.data(), count * sizeof(T));
    on_host.push_back({m.host.data() + at, on_wire});
    on_device.push_back({m.device() + at, on_wire});
  }
  m.to_device(s);
  kolo::cuda::device_copy_batch copy_batch;
  copy_batch.stream = s;
  const executor work{copy_batch};
  const auto do_all = [&](const auto& does, const kolo::kernel& its, std::byte* base,
                          const std::vector<kolo::source>& from) {
    auto *const apart = base + part * static_cast<std::size_t>(n) + before, *const wire = apart + part;
    does.combine(its, apart, from.data(), n, count, 0);
    does.combine(its, base + before, from.data(), n, count, n);  // in place, and finished
    if (its.to_wire) {
      does.to_wire(its, wire, base + before, apart, count);
      does.from_wire(its, base + before, wire, count);
      does.round(its, apart, count);
    }
    if (count > 0) does.copy(wire, apart, count * sizeof(T));
  };
  do_all(kolo::detail::execute::host_executor{}, k, m.host.data(), on_host);
  do_all(work, on_gpu, m.device(), on_device);
  copy_batch.flush();
  const auto got = m.from_device(s);
  expect_bytes(wrong, name + " of " + std::to_string(n) + " sources, shifted by " + std::to_string(shift), 0,
               got.data(), m.host.data(), got.size(), 1);
}

/// One pass from `n` sources to `places` places: every other place is also a source, and only the last one is offset by `shift` bytes.
template <class T, class Op>
void compare_places(complaints& wrong, const std::string& name, const Op& op, std::size_t count, std::size_t shift,
                    int n, int places, cudaStream_t s) {
  const std::size_t part = (count * sizeof(T) + shift + 255) / 256 * 256 + 256;
  both_memories m{part * static_cast<std::size_t>(n + places)};
  const auto at = [&](std::byte* base, int i) {
    return base + part * static_cast<std::size_t>(i) + (i == n + places - 1 ? shift : 0);
  };
  std::vector<kolo::source> on_host, on_device;
  std::vector<std::byte*> to;
  for (int i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const T x = number<T>(j * 13 + static_cast<std::size_t>(i));
      std::memcpy(at(m.host.data(), i) + j * sizeof(T), &x, sizeof x);
    }
    on_host.push_back({at(m.host.data(), i), false});
    on_device.push_back({at(m.device(), i), false});
  }
  m.to_device(s);
  std::vector<std::byte> result(count * sizeof(T) + 1);
  kolo::detail::execute::host_executor{}.combine(kolo::make_kernel<T>(op), result.data(), on_host.data(), n, count, n);
  for (int k = 0; k < places; ++k) {
    const int place = k % 2 == 1 && k < n ? k : n + k;
    if (count > 0) std::memcpy(at(m.host.data(), place), result.data(), count * sizeof(T));
    to.push_back(at(m.device(), place));
  }
  kolo::detail::cuda::functions_of<T, Op>::combine_to_all(s, op, {to.data(), places, on_device.data(), n, count, n});
  const auto got = m.from_device(s);
  expect_bytes(wrong,
               name + " of " + std::to_string(n) + " sources in " + std::to_string(places) +
                   " places, the last shifted by " + std::to_string(shift),
               0, got.data(), m.host.data(), got.size(), 1);
}

template <class T, class Op>
void compare_all_places(complaints& wrong, const std::string& name, const Op& op, std::size_t most, cudaStream_t s) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{37}, most})
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, sizeof(T)})
      for (const int n : {1, 2, 3, 9})
        for (const int places : {1, 2, 5, 9}) compare_places<T>(wrong, name, op, count, shift, n, places, s);
}

template <class T, class Op>
void compare_all(complaints& wrong, const std::string& name, const Op& op, std::size_t most, cudaStream_t s) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{16}, std::size_t{37}, most})
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}})
      for (const int n : {1, 2, 3, 7}) compare<T>(wrong, name, op, count, shift, n, s);
}

inline void same_bits_as_the_host(complaints& wrong, std::size_t most, cudaStream_t s) {
  compare_all<float>(wrong, "average of float", kolo::average, most, s);
  compare_all<double>(wrong, "product of double", kolo::product, most, s);
  compare_all<float>(wrong, "min of float", kolo::min, most, s);
  compare_all<kolo::bfloat16>(wrong, "average of bfloat16", kolo::average, most, s);
  compare_all<kolo::float16>(wrong, "sum of float16", kolo::sum, most, s);
  compare_all<float>(wrong, "average of float as bfloat16", kolo::wire<kolo::bfloat16>(kolo::average), most, s);
  compare_all<std::int8_t>(wrong, "sum of int8", kolo::sum, most, s);
  compare_all<std::uint64_t>(wrong, "xor of uint64", kolo::bit_xor, most, s);
  compare_all<float>(wrong, "an operator with a state", scaled_or_first{1.5F}, most, s);
  compare_all<three_bytes>(wrong, "elements of three bytes", larger_of_three{}, most, s);
  compare_all_places<float>(wrong, "average of float", kolo::average, most, s);
  compare_all_places<kolo::bfloat16>(wrong, "average of bfloat16", kolo::average, most, s);
  compare_all_places<three_bytes>(wrong, "elements of three bytes", larger_of_three{}, most, s);
}

/// The calls of combine.hpp: in place, and into several views, one of which is a source.
inline void combines_views(complaints& wrong, cudaStream_t s) {
  tensor<float> a{of_rank(0, 1000), s}, b{of_rank(1, 1000), s}, c{of_rank(2, 1000), s};
  kolo::cuda::combine(s, a.view(), {a.view(), b.view()}, kolo::average, 2);
  auto expected = summed(2, 1000);
  for (auto& x : expected) x /= 2;
  expect_same(wrong, "combine", 0, a.values(), expected);
  kolo::cuda::combine(s, {b.view(), c.view()}, {a.view(), b.view()}, kolo::max);
  expect_same(wrong, "combine into a source", 0, b.values(), of_rank(1, 1000));
  expect_same(wrong, "combine into another view", 0, c.values(), of_rank(1, 1000));
  const auto refused = [&](auto call, const char* words) {
    std::string said;
    try {
      call();
    } catch (const kolo::error& e) {
      said = e.what();
    }
    wrong.expect(said.find(words) != std::string::npos, std::string{"expected: "} + words + ", not: " + said);
  };
  const auto shorter = b.view().subspan(0, 999);
  refused(
      [&] {
        kolo::cuda::combine(s, {a.view(), shorter}, {b.view()}, kolo::sum);
      },
      "the views have different lengths");
  refused(
      [&] {
        kolo::cuda::combine(s, {a.view(), c.view()}, {shorter}, kolo::sum);
      },
      "the views have different lengths");
  refused([&] { kolo::cuda::combine(s, {a.view(), c.view()}, {}, kolo::sum); }, "needs at least one source");
  refused([&] { kolo::cuda::combine(s, std::initializer_list<kolo::device_span<float>>{}, {a.view()}, kolo::sum); },
          "needs at least one destination");
}

/// Dependent copies keep their order; many short ones are one launch.
inline void copies_keep_their_order(complaints& wrong, cudaStream_t s) {
  both_memories m{40'000};
  m.to_device(s);
  kolo::cuda::device_copy_batch copy_batch;
  copy_batch.stream = s;
  const auto do_all = [&](const auto& does, std::byte* base) {
    for (std::size_t i = 0; i < 400; ++i) does.copy(base + 10'000 + i * 20, base + i * 13, 11 + i % 3);
    for (std::size_t i = 0; i < 50; ++i)
      does.copy(base + 100 * (i + 1), base + 100 * i, 100);  // each reads what the previous one wrote
    for (std::size_t i = 0; i < 50; ++i)
      does.copy(base + 30'000 - 64 * i, base + 20'000 + 80 * i, 80);  // each overwrites part of the previous one
    for (std::size_t i = 0; i < 20; ++i) does.copy(base + 35'000, base + 32 * i, 32);
  };
  do_all(kolo::detail::execute::host_executor{}, m.host.data());
  do_all(kolo::cuda::device_executor{copy_batch}, m.device());
  copy_batch.flush();
  const auto got = m.from_device(s);
  expect_bytes(wrong, "copies", 0, got.data(), m.host.data(), got.size(), 1);
}

}  // namespace testing
