// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with the vector instructions of this processor compared, bit for bit, with those for which the program is compiled.
#include <kolo/reduce/kernel.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <complex>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace {

using kolo::bfloat16;
using kolo::float16;
using kolo::detail::reduce::has_avx2;

/// Runs f twice: with the instructions that all processors have, and with those of this one.
template <class F>
void with_and_without(const F& f) {
#if KOLO_CHOOSES_VECTORS
  const bool has = has_avx2;
  has_avx2 = false;
  f(0);
  has_avx2 = has;
#else
  f(0);
#endif
  f(1);
}

bool chosen_from() {
#if !KOLO_CHOOSES_VECTORS
  WARN("skipped: AVX2, since the target of the program leaves no choice");
#else
  if (!has_avx2) WARN("skipped: AVX2, which this processor does not have");
#endif
  return has_avx2;
}

struct quaternion {
  float w, x, y, z;
};
struct compose {
  static constexpr bool commutative = false;
  quaternion operator()(quaternion a, quaternion b) const {
    return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
  }
};
struct line {  // a x + b, one after the other: a product and a sum, which one instruction would round once
  float operator()(float p, float q) const { return p * q + p; }
};

static_assert(!kolo::is_commutative<compose>);

enum class numbers { exact, random };

template <class T>
inline constexpr bool has_fraction = std::is_floating_point_v<T> || kolo::accumulate_in_float<T>;

/// Small integers; or any bits, except NaN: which of two NaNs a sum keeps is up to the compiler.
template <class T>
T some(std::mt19937& draw, numbers kind) {
  if (kind == numbers::exact) return static_cast<T>(static_cast<int>(draw() % 7) - 3);
  for (;;) {
    T x;
    const std::uint64_t bits = static_cast<std::uint64_t>(draw()) << 32 | draw();
    std::memcpy(static_cast<void*>(&x), &bits, sizeof x);
    if constexpr (has_fraction<T>)
      if (x != x) continue;
    return x;
  }
}
template <>
quaternion some<quaternion>(std::mt19937& draw, numbers kind) {
  const auto next = [&] {
    return kind == numbers::exact ? some<float>(draw, kind) : static_cast<float>(draw()) / 3e9F - 0.7F;
  };
  return {next(), next(), next(), next()};
}
template <>
std::complex<float> some<std::complex<float>>(std::mt19937& draw, numbers kind) {
  return {some<float>(draw, kind), some<float>(draw, kind)};
}

template <class T>
std::vector<std::byte> fill(std::mt19937& draw, numbers kind, std::size_t count, std::size_t off) {
  std::vector<std::byte> bytes(count * sizeof(T) + off);
  for (std::size_t i = 0; i < count; ++i) {
    const T x = some<T>(draw, kind);
    std::memcpy(bytes.data() + off + i * sizeof(T), &x, sizeof x);
  }
  return bytes;
}

/// The number of differences in combine(): of 2, 3 and 6 sources, in place and not, finished and not, at every alignment.
template <class T, class Op>
int differences(const Op& op, numbers kind) {
  using W = kolo::detail::reduce::wire_element_t<Op, T>;
  const kolo::kernel kernel = kolo::make_kernel<T>(op);
  constexpr std::size_t most = 1333;
  std::mt19937 draw(1);
  std::vector<std::byte> memory[6], wire[6];
  for (std::size_t k = 0; k < 6; ++k) {
    memory[k] = fill<T>(draw, kind, most, 64);
    wire[k] = fill<W>(draw, kind, most, 64);
  }
  int wrong = 0;
  for (std::size_t off = 0; off < 32; ++off)
    for (const std::size_t count : {std::size_t{1}, std::size_t{127}, std::size_t{257}, std::size_t{512} + off, most})
      for (const int n : {2, 3, 6}) {
        if (n == 6 && count != most) continue;
        const bool finish = kernel.finishes && (off + count) % 2 == 0, in_place = off % 3 == 0;
        std::vector<std::byte> result[2];
        with_and_without([&](int which) {
          auto& to = result[which];
          to.assign(most * sizeof(T) + 64, std::byte{0xa5});
          kolo::source sources[6];
          for (std::size_t k = 0; k < 6; ++k) {
            const bool on_wire = !std::is_same_v<T, W> && (k + off) % 2 == 1 && !(k == 1 && in_place);
            // The first element has the requested alignment; the bytes before it belong to no source.
            sources[k] = {(on_wire ? wire : memory)[k].data() + 64, on_wire};
          }
          std::vector<std::byte> moved(most * sizeof(T) + 64);
          std::memcpy(moved.data() + off, memory[0].data() + 64, most * sizeof(T));
          sources[0] = {moved.data() + off, false};
          if (in_place) {
            std::memcpy(to.data() + off, sources[1].data, count * sizeof(T));
            sources[1] = {to.data() + off, false};
          }
          kernel.combine(kernel.op, to.data() + off, sources, n, count, finish ? 3 : 0);
        });
        wrong += result[0] != result[1];
      }
  if constexpr (!std::is_same_v<T, W>)
    for (std::size_t off = 0; off < 32; ++off)
      for (const std::size_t count : {std::size_t{1}, std::size_t{257}, most}) {
        std::vector<std::byte> to[2], rounded[2], back[2];
        with_and_without([&](int which) {
          to[which].resize(most * sizeof(W) + 64), rounded[which].resize(most * sizeof(T) + 64);
          back[which].resize(most * sizeof(T) + 64);
          kernel.to_wire(to[which].data() + off, memory[0].data() + 64, rounded[which].data() + off, count);
          kernel.from_wire(back[which].data() + off, wire[0].data() + 64, count);
        });
        wrong += to[0] != to[1] || rounded[0] != rounded[1] || back[0] != back[1];
      }
  return wrong;
}

template <class T, class Op>
void check(const Op& op) {
  CHECK(differences<T>(op, numbers::exact) == 0);
  CHECK(differences<T>(op, numbers::random) == 0);
}

template <class T>
void check_arithmetic() {
  check<T>(kolo::sum);
  check<T>(kolo::product);
  check<T>(kolo::min);
  check<T>(kolo::max);
  if constexpr (has_fraction<T>) check<T>(kolo::average);
}

template <class T>
void check_integers() {
  check_arithmetic<T>();
  check<T>(kolo::bit_and);
  check<T>(kolo::bit_or);
  check<T>(kolo::bit_xor);
}

}  // namespace

TEST_CASE("floating-point numbers get the same bits from all vector instructions") {
  chosen_from();
  check_arithmetic<float>();
  check_arithmetic<double>();
  check_arithmetic<float16>();
  check_arithmetic<bfloat16>();
  check<std::complex<float>>(kolo::sum);
}

TEST_CASE("integers get the same bits from all vector instructions") {
  chosen_from();
  check_integers<std::int8_t>();
  check_integers<std::uint16_t>();
  check_integers<std::int32_t>();
  check_integers<std::uint64_t>();
}

TEST_CASE("elements that travel in 16 bits get the same bits from all vector instructions") {
  chosen_from();
  check<float>(kolo::wire<bfloat16>(kolo::sum));
  check<float>(kolo::wire<float16>(kolo::average));
  check<double>(kolo::wire<float16>(kolo::sum));
  check<float16>(kolo::wire<bfloat16>(kolo::sum));
}

TEST_CASE("users' operators get the same bits from all vector instructions") {
  chosen_from();
  check<quaternion>(compose{});
  check<float>(line{});
  check<bfloat16>(line{});
}

TEST_CASE("the conversions of all 16-bit numbers, also NaN, are the same") {
  chosen_from();
  const auto converts = [](auto wire) {
    using W = decltype(wire);
    const auto op = kolo::wire<W>(kolo::sum);
    const kolo::kernel kernel = kolo::make_kernel<float>(op);
    std::vector<std::uint16_t> halves(65536), narrow[2];
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint32_t> wide[2], floats(1 << 20);
    std::mt19937 draw(1);
    for (auto& x : floats) x = static_cast<std::uint32_t>(draw());
    with_and_without([&](int which) {
      wide[which].resize(halves.size());
      narrow[which].resize(floats.size());
      const auto bytes = [](auto& x) { return reinterpret_cast<std::byte*>(x.data()); };
      kernel.from_wire(bytes(wide[which]), bytes(halves), halves.size());
      kernel.to_wire(bytes(narrow[which]), bytes(floats), nullptr, floats.size());
    });
    CHECK(wide[0] == wide[1]);
    CHECK(narrow[0] == narrow[1]);
  };
  converts(bfloat16());
  converts(float16());
}

TEST_CASE("all instructions give the right result where every number is exact") {
  std::mt19937 draw(1);
  std::vector<float> a(5001), b(a.size()), c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = some<float>(draw, numbers::exact), b[i] = some<float>(draw, numbers::exact);
  }
  const auto bytes = [](std::vector<float>& x) { return reinterpret_cast<std::byte*>(x.data()); };
  with_and_without([&](int) {
    const kolo::source sources[] = {{bytes(a), false}, {bytes(b), false}};
    const kolo::kernel kernel = kolo::make_kernel<float>(kolo::sum);
    kernel.combine(kernel.op, bytes(c), sources, 2, a.size(), 0);
    int wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) wrong += c[i] != a[i] + b[i];
    CHECK(wrong == 0);
  });
}
