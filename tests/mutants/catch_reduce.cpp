// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in element types, views, operators and kernels.
#include <kolo/reduce/kernel.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/bucket.hpp>
#include <kolo/view/float16.hpp>
#include <kolo/view/strided.hpp>

#include <cstring>
#include <vector>

namespace {

using kolo::bfloat16;
using kolo::float16;

constexpr float nan = __builtin_nanf("");
constexpr unsigned bits(float x) { return __builtin_bit_cast(unsigned, x); }

bool narrowing() {
  return bfloat16(1.00390625F).bits() == 0x3f80 && bfloat16(1.01171875F).bits() == 0x3f82 &&
         bfloat16(nan).bits() == 0xffff && float16(1.00048828125F).bits() == 0x3c00 &&
         float16(1.00146484375F).bits() == 0x3c02 && float16(5.9604645e-8F).bits() == 1 &&
         float16(65520.0F).bits() == 0x7c00 && float16(1.00048828125 + 1e-12).bits() == 0x3c01 &&
         float{float16::from_bits(0x0001)} == 0x1p-24F && float{float16::from_bits(0x7c00)} == __builtin_inff();
}

bool operators() {
  return bits(kolo::min(0.0F, -0.0F)) == 0x80000000U && bits(kolo::min(-0.0F, 0.0F)) == 0x80000000U &&
         bits(kolo::max(-0.0F, 0.0F)) == 0 && bits(kolo::min(nan, 1.0F)) == ~0U &&
         kolo::product(static_cast<short>(300), static_cast<short>(300)) == static_cast<short>(90000 - 65536) &&
         bits(kolo::sum(kolo::identity<kolo::sum_t, float>(), -0.0F)) == 0x80000000U && kolo::max(2, 3) == 3 &&
         kolo::min(2, 3) == 2 && kolo::average.finish(3.0F, 2) == 1.5F;
}

struct root {
  float operator()(float a, float b) const { return a + b; }
  float finish(float x, int) const { return x / 2; }
};
bool one_rank() {
  return kolo::make_kernel<float>(root{}).finishes_alone && !kolo::make_kernel<float>(kolo::average).finishes_alone &&
         !kolo::make_kernel<float>(kolo::sum).finishes_alone;
}

template <class V>
bool shows(const V& view, const std::vector<int*>& expected) {
  const kolo::memory memory = kolo::erase(view);
  if (memory.count != expected.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const kolo::contiguous_run part = memory.at(i);
    if (part.count == 0 || part.count > expected.size() - i) return false;
    for (std::size_t k = 0; k < part.count; ++k)
      if (part.data + k * sizeof(int) != reinterpret_cast<std::byte*>(expected[i + k])) return false;
  }
  return true;
}

bool views() {
  std::vector<int> a(20), b(3), none;
  int *const p = a.data(), *const q = b.data();
  const kolo::strided<int, 2> columns{p, {2, 3}, {5, 1}}, turned{p, {2, 3}, {1, 5}};
  return shows(columns, {p, p + 1, p + 2, p + 5, p + 6, p + 7}) &&
         shows(turned, {p, p + 5, p + 10, p + 1, p + 6, p + 11}) &&
         shows(kolo::bucket{none, b, columns, none, b},
               {q, q + 1, q + 2, p, p + 1, p + 2, p + 5, p + 6, p + 7, q, q + 1, q + 2});
}

/// The result of n sources in the place of each; 2 a - b neither commutes nor associates.
template <class T>
bool combines(int n, std::size_t count) {
  const auto op = [](T a, T b) { return static_cast<T>(2 * a - b); };
  const kolo::kernel kernel = kolo::make_kernel<T>(op);
  for (int place = 0; place < n; ++place) {
    std::vector<std::vector<T>> in(static_cast<std::size_t>(n), std::vector<T>(count));
    std::vector<kolo::source> sources;
    for (std::size_t k = 0; k < in.size(); ++k) {
      for (std::size_t i = 0; i < count; ++i) in[k][i] = static_cast<T>(static_cast<float>((7 * i + 3 * k) % 32));
      sources.push_back({reinterpret_cast<const std::byte*>(in[k].data()), false});
    }
    std::vector<T> expected;
    for (std::size_t i = 0; i < count; ++i) {
      float x = static_cast<float>(in[0][i]);
      for (std::size_t k = 1; k < in.size(); ++k) x = 2 * x - static_cast<float>(in[k][i]);
      expected.push_back(static_cast<T>(x));
    }
    auto& out = in[static_cast<std::size_t>(place)];
    kernel.combine(kernel.op, reinterpret_cast<std::byte*>(out.data()), sources.data(), n, count, 0);
    if (count != 0 && std::memcmp(out.data(), expected.data(), count * sizeof(T)) != 0) return false;
  }
  return true;
}

bool kernels() {
  for (const int n : {1, 2, 3, 4})
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{3000}})
      if (!combines<float>(n, count) || !combines<bfloat16>(n, count)) return false;
  return true;
}

bool accumulates_in_float() {
  const kolo::kernel kernel = kolo::make_kernel<bfloat16>(kolo::sum);
  const bfloat16 in[3] = {bfloat16(256), bfloat16(1), bfloat16(1)};  // 257 would be rounded to 256, twice
  const auto* first = reinterpret_cast<const std::byte*>(in);
  const kolo::source sources[] = {{first, false}, {first + 2, false}, {first + 4, false}};
  bfloat16 result(0);
  kernel.combine(kernel.op, reinterpret_cast<std::byte*>(&result), sources, 3, 1, 0);
  return result == 258;
}

bool averages() {
  const auto op = kolo::wire<bfloat16>(kolo::average);
  const kolo::kernel kernel = kolo::make_kernel<float>(op);
  float mine[3] = {1, 2, 3}, keep[3] = {1.001F, 2, 3};
  const bfloat16 theirs[3] = {bfloat16(3), bfloat16(4), bfloat16(5)};
  bfloat16 wire[3];
  const auto bytes = [](auto* x) {
    return reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<std::remove_pointer_t<decltype(x)>>*>(x));
  };
  const kolo::source sources[] = {{bytes(mine), false}, {bytes(theirs), true}};
  kernel.combine(kernel.op, bytes(mine), sources, 2, 3, 2);
  kernel.to_wire(bytes(wire), bytes(keep), bytes(keep), 3);
  return kernel.finishes && mine[0] == 2 && mine[1] == 3 && mine[2] == 4 && keep[0] == 1 && float{wire[1]} == 2;
}

}  // namespace

int main() {
  return narrowing() && operators() && views() && kernels() && accumulates_in_float() && averages() && one_rank() ? 0
                                                                                                                  : 1;
}
