// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels compared with one element at a time: any number of sources, any alignment, and the result in the place of each source.
#include <kolo/reduce/kernel.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <array>
#include <complex>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace {

using kolo::bfloat16;
using kolo::float16;
using sizes = std::initializer_list<std::size_t>;

struct rgb {
  std::uint8_t r, g, b;
};
struct mix {  // not commutative, and sensitive to swapped and missing operands
  static constexpr bool commutative = false;
  rgb operator()(rgb x, rgb y) const {
    return {static_cast<std::uint8_t>(3 * x.r + y.g), static_cast<std::uint8_t>(x.g ^ y.b),
            static_cast<std::uint8_t>(x.b - y.r)};
  }
};
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
struct triple {
  double x, y, z;
  friend triple operator+(const triple& a, const triple& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend triple operator/(const triple& a, double s) { return {a.x / s, a.y / s, a.z / s}; }
};
struct hundred_bytes {
  std::uint8_t bytes[100];
};
struct subtract_bytes {
  static constexpr bool commutative = false;
  hundred_bytes operator()(hundred_bytes a, const hundred_bytes& b) const {
    for (std::size_t i = 0; i < 100; ++i) a.bytes[i] = static_cast<std::uint8_t>(2 * a.bytes[i] - b.bytes[i]);
    return a;
  }
};
class no_default {
 public:
  explicit no_default(std::int32_t value) : value_{value} {}
  std::int32_t value() const { return value_; }

 private:
  const std::int32_t value_;  // nor can it be assigned
};
struct subtract_no_default {
  static constexpr bool commutative = false;
  no_default operator()(const no_default& a, const no_default& b) const {
    return no_default{
        static_cast<std::int32_t>(static_cast<std::uint32_t>(a.value()) * 3U - static_cast<std::uint32_t>(b.value()))};
  }
};
struct weighted {  // an operator with a state
  float weight;
  static constexpr bool commutative = false;
  float operator()(float a, float b) const { return weight * a + b; }
  float finish(float x, int p) const { return x - static_cast<float>(p); }
};

static_assert(!kolo::is_commutative<mix> && !kolo::is_commutative<compose> && !kolo::is_commutative<subtract_bytes> &&
              !kolo::is_commutative<subtract_no_default> && !kolo::is_commutative<weighted>);

template <class T>
void fill(std::byte* to, std::size_t count, std::uint32_t seed) {
  const auto next = [&seed] { return seed = seed * 1664525U + 1013904223U, seed >> 8; };
  const auto small = [&next] { return static_cast<float>(static_cast<int>(next() % 2001) - 1000) / 64.0F; };
  constexpr bool is_put = std::is_floating_point_v<T> || kolo::accumulate_in_float<T> ||
                          std::is_same_v<T, quaternion> || std::is_same_v<T, triple> ||
                          std::is_same_v<T, std::complex<float>>;
  if constexpr (!is_put)
    for (std::size_t i = 0; i < count * sizeof(T); ++i) to[i] = static_cast<std::byte>(next());
  const auto put = [&](std::size_t i, const auto&... parts) {
    std::byte* at = to + i * sizeof(T);
    ((std::memcpy(at, &parts, sizeof parts), at += sizeof parts), ...);
  };
  for (std::size_t i = 0; i < count; ++i) {  // no NaN: which of two NaNs a sum keeps is up to the compiler
    if constexpr (std::is_floating_point_v<T> || kolo::accumulate_in_float<T>) put(i, static_cast<T>(small()));
    if constexpr (std::is_same_v<T, quaternion>) put(i, small(), small(), small(), small());
    if constexpr (std::is_same_v<T, triple>) put(i, double{small()}, double{small()}, double{small()});
    if constexpr (std::is_same_v<T, std::complex<float>>) put(i, small(), small());
  }
}

template <class T>
T element(const std::byte* from, std::size_t i) {
  alignas(T) std::byte raw[sizeof(T)];
  std::memcpy(raw, from + i * sizeof(T), sizeof(T));
  return *reinterpret_cast<const T*>(raw);
}

/// Bytes with a margin on either side that must not be written, at offset `off` from alignment.
class guarded {
 public:
  guarded(std::size_t bytes, std::size_t off)
      : bytes_{bytes}, off_{margin + off}, memory_(off_ + bytes + margin, std::byte{0xa5}) {}
  std::byte* data() { return memory_.data() + off_; }
  bool intact() const {
    const auto untouched = [&](std::size_t from, std::size_t to) {
      static const std::vector<std::byte> as_it_was(margin + 64, std::byte{0xa5});
      return std::memcmp(memory_.data() + from, as_it_was.data(), to - from) == 0;
    };
    return untouched(0, off_) && untouched(off_ + bytes_, memory_.size());
  }

 private:
  static constexpr std::size_t margin = 64;
  std::size_t bytes_, off_;
  std::vector<std::byte> memory_;
};

/// combine() of n sources compared with one element after the other; dst is apart from them (`in_place` < 0), or is one of them.
template <class T, class Op>
KOLO_UNFUSED bool combines(const Op& op, int n, std::size_t count, std::size_t off, int in_place, int finish_size) {
  using W = kolo::detail::reduce::wire_element_t<Op, T>;
  using A = kolo::detail::reduce::accumulator_t<T, Op>;
  const kolo::kernel kernel = kolo::make_kernel<T>(op);
  std::vector<guarded> memory;
  std::vector<kolo::source> sources;
  for (int k = 0; k < n; ++k) {
    const bool on_wire = !std::is_same_v<T, W> && k % 2 == 1 && k != in_place;
    memory.emplace_back(count * (on_wire ? sizeof(W) : sizeof(T)), (off + static_cast<std::size_t>(k) * off) % 16);
    if (on_wire) fill<W>(memory.back().data(), count, static_cast<std::uint32_t>(k + 1));
    else fill<T>(memory.back().data(), count, static_cast<std::uint32_t>(k + 1));
  }
  memory.emplace_back(count * sizeof(T), off);
  for (int k = 0; k < n; ++k)
    sources.push_back(
        {memory[static_cast<std::size_t>(k)].data(), !std::is_same_v<T, W> && k % 2 == 1 && k != in_place});

  const auto widened = [&](int k, std::size_t i) {
    const kolo::source& s = sources[static_cast<std::size_t>(k)];
    if constexpr (!std::is_same_v<T, W>)
      if (s.on_wire) return static_cast<A>(static_cast<float>(element<W>(s.data, i)));
    return static_cast<A>(element<T>(s.data, i));
  };
  std::vector<std::byte> expected(count * sizeof(T));
  std::vector<A> partial;  // cleared and refilled, since elements may lack assignment
  for (std::size_t i = 0; i < count; ++i) {
    partial.clear(), partial.push_back(widened(0, i));
    for (int k = 1; k < n; ++k) partial.push_back(static_cast<A>(op(partial.back(), widened(k, i))));
    if constexpr (kolo::Finishes<Op, A>)
      if (finish_size > 0) partial.push_back(op.finish(partial.back(), finish_size));
    const T result = static_cast<T>(partial.back());
    std::memcpy(expected.data() + i * sizeof(T), &result, sizeof(T));
  }

  guarded& result = memory[static_cast<std::size_t>(in_place < 0 ? n : in_place)];
  kernel.combine(kernel.op, result.data(), sources.data(), n, count, finish_size);
  for (const auto& m : memory)
    if (!m.intact()) return false;
  return count == 0 || std::memcmp(result.data(), expected.data(), expected.size()) == 0;
}

template <class T, class Op>
void check_kernel(const Op& op) {
  int wrong = 0;
  const std::vector<std::size_t> counts =
      testing::is_sanitized
          ? std::vector<std::size_t>{0, 1, 3, 31, 32, 64, 65, 129, 500}
          : std::vector<std::size_t>{0, 1, 2, 3, 5, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 500, 1025};
  for (const std::size_t count : counts)
    for (const std::size_t off : sizes{0, 1, 4})
      for (int n = 1; n <= 5; ++n)
        for (int in_place = -1; in_place < n; ++in_place)
          for (const int finish_size : {0, 3}) wrong += !combines<T>(op, n, count, off, in_place, finish_size);
  for (const std::size_t count : sizes{4096, 5001})
    for (const int n : {2, 3}) wrong += !combines<T>(op, n, count, 0, 0, 3) + !combines<T>(op, n, count, 1, -1, 0);
  for (const std::size_t count : sizes{1, 63, 127, 1023, 1151, 2111})
    for (int n = 6; n <= 12; ++n)
      wrong += !combines<T>(op, n, count, 0, n - 1, 3) + !combines<T>(op, n, count, 1, -1, 0);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("kernels of built-in operators") {
  check_kernel<float>(kolo::sum);
  check_kernel<float>(kolo::average);
  check_kernel<double>(kolo::max);
  check_kernel<std::int8_t>(kolo::product);
  check_kernel<std::uint16_t>(kolo::sum);
  check_kernel<std::int64_t>(kolo::bit_xor);
  check_kernel<std::complex<float>>(kolo::average);
}

TEST_CASE("elements of 16 bits are accumulated in float and rounded once") {
  check_kernel<bfloat16>(kolo::sum);
  check_kernel<bfloat16>(kolo::average);
  check_kernel<float16>(kolo::average);
  check_kernel<float16>(kolo::min);
  check_kernel<bfloat16>([](auto a, auto b) { return a + b; });
}

TEST_CASE("kernels of users' operators on users' elements") {
  check_kernel<rgb>(mix{});
  check_kernel<quaternion>(compose{});
  check_kernel<triple>(kolo::average);
  check_kernel<hundred_bytes>(subtract_bytes{});
  check_kernel<float>(weighted{0.5F});
}

TEST_CASE("an operator on 16-bit elements is computed in 16 bits") {
  check_kernel<bfloat16>([](bfloat16 a, bfloat16 b) { return bfloat16(a - b); });
}

TEST_CASE("sources on the wire have the wire type") {
  check_kernel<float>(kolo::wire<bfloat16>(kolo::average));
  check_kernel<double>(kolo::wire<float16>(kolo::sum));
  check_kernel<float16>(kolo::wire<bfloat16>(kolo::sum));
  check_kernel<float>(kolo::wire<float>(kolo::sum));
}

TEST_CASE("an element needs neither a default constructor nor an assignment") {
  const subtract_no_default op{};
  const kolo::kernel kernel = kolo::make_kernel<no_default>(op);
  for (const std::size_t off : sizes{0, 1}) {
    std::vector<std::byte> a(4 * 300 + 1), b(a.size()), c(a.size()), d(a.size());
    fill<std::int32_t>(a.data() + off, 300, 1);
    fill<std::int32_t>(b.data() + off, 300, 2);
    fill<std::int32_t>(c.data() + off, 300, 3);
    const std::array<kolo::source, 3> sources{
        {{a.data() + off, false}, {b.data() + off, false}, {c.data() + off, false}}};
    kernel.combine(kernel.op, d.data() + off, sources.data(), 3, 300, 0);
    int wrong = 0;
    const auto at = [](const std::byte* from, std::size_t i) { return element<std::uint32_t>(from, i); };
    for (std::size_t i = 0; i < 300; ++i)
      wrong +=
          at(d.data() + off, i) != (at(a.data() + off, i) * 3U - at(b.data() + off, i)) * 3U - at(c.data() + off, i);
    CHECK(wrong == 0);
  }
}

namespace {
template <class W, class T>
void check_wire() {
  const kolo::sum_t sum{};
  const auto op = kolo::wire<W>(sum);
  const kolo::kernel kernel = kolo::make_kernel<T>(op);
  REQUIRE(kernel.element_bytes == sizeof(T));
  REQUIRE(kernel.wire_bytes == sizeof(W));
  int wrong = 0;
  for (const std::size_t count : sizes{0, 1, 31, 32, 33, 64, 127, 1000, 3001})
    for (const std::size_t off : sizes{0, 1})
      for (const bool in_place : {false, true}) {
        guarded from(count * sizeof(T), off), wire(count * sizeof(W), off), rounded(count * sizeof(T), off),
            back(count * sizeof(T), off);
        fill<T>(from.data(), count, 7);
        std::vector<T> original;
        for (std::size_t i = 0; i < count; ++i) original.push_back(element<T>(from.data(), i));
        std::byte* const to = in_place ? from.data() : rounded.data();
        kernel.to_wire(wire.data(), from.data(), to, count);
        kernel.from_wire(back.data(), wire.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
          const W w = static_cast<W>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(original[i]));
          const T t = static_cast<T>(static_cast<float>(w));
          wrong += std::memcmp(wire.data() + i * sizeof(W), &w, sizeof w) != 0;
          wrong += std::memcmp(to + i * sizeof(T), &t, sizeof t) != 0;
          wrong += std::memcmp(back.data() + i * sizeof(T), &t, sizeof t) != 0;
        }
        wrong += !from.intact() || !wire.intact() || !rounded.intact() || !back.intact();
        kernel.to_wire(wire.data(), from.data(), nullptr, count);
      }
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("elements that are sent in the wire type are rounded in memory, too") {
  check_wire<bfloat16, float>();
  check_wire<float16, float>();
  check_wire<bfloat16, double>();
  check_wire<float, double>();
  check_wire<bfloat16, float16>();
}

namespace {
/// All 16-bit numbers; and floats of every exponent with fractions on and around the limits of rounding.
template <class W>
std::vector<W> all_halves() {
  std::vector<W> all;
  for (unsigned bits = 0; bits < 65536; ++bits) all.push_back(W::from_bits(static_cast<std::uint16_t>(bits)));
  return all;
}
std::vector<float> boundary_floats() {
  std::vector<float> all;
  for (std::uint32_t top = 0; top < 512; ++top)  // sign and exponent
    for (std::uint32_t bit = 1; bit < 0x800000; bit *= 2)
      for (const std::uint32_t fraction :
           {bit - 1, bit, bit + 1, 3 * bit - 1, 3 * bit, 3 * bit + 1, 0 - bit, top * 7919 * bit})
        all.push_back(__builtin_bit_cast(float, top << 23 | (fraction & 0x7fffff)));
  return all;
}

template <class T>
std::byte* bytes(std::vector<T>& x) {
  return reinterpret_cast<std::byte*>(x.data());
}

template <class W>
void check_conversions() {
  const auto wired = kolo::wire<W>(kolo::sum);
  const kolo::kernel converts = kolo::make_kernel<float>(wired), sums = kolo::make_kernel<W>(kolo::sum);
  std::vector<W> halves = all_halves<W>();
  std::vector<float> wide(halves.size()), floats = boundary_floats();
  std::vector<W> narrow(floats.size(), W(0)), reversed(halves.rbegin(), halves.rend()), sum(halves.size(), W(0));
  converts.from_wire(bytes(wide), bytes(halves), halves.size());
  converts.to_wire(bytes(narrow), bytes(floats), nullptr, floats.size());
  const std::array<kolo::source, 2> sources{{{bytes(halves), false}, {bytes(reversed), false}}};
  sums.combine(sums.op, bytes(sum), sources.data(), 2, sum.size(), 0);
  int wrong = 0;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float x = halves[i];
    wrong += x == x ? __builtin_bit_cast(std::uint32_t, x) != __builtin_bit_cast(std::uint32_t, wide[i])
                    : wide[i] == wide[i];
    wrong += sum[i].bits() != W(x + static_cast<float>(reversed[i])).bits();
  }
  CHECK(wrong == 0);
  for (std::size_t i = 0; i < floats.size(); ++i) wrong += narrow[i].bits() != W(floats[i]).bits();
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("kernels convert many elements as one is converted, also infinity and NaN") {
  check_conversions<bfloat16>();
  check_conversions<float16>();
}

TEST_CASE("a kernel's fields") {
  const kolo::kernel copy = kolo::detail::reduce::copy_kernel<triple>();
  CHECK(copy.element_bytes == sizeof(triple));
  CHECK(copy.wire_bytes == sizeof(triple));
  CHECK(copy.combine == nullptr);
  CHECK_FALSE(copy.finishes);
  const kolo::kernel sum = kolo::make_kernel<float>(kolo::sum), average = kolo::make_kernel<bfloat16>(kolo::average);
  CHECK_FALSE(sum.finishes);
  CHECK(average.finishes);
  CHECK(sum.to_wire == nullptr);
  CHECK(sum.from_wire == nullptr);
  CHECK(sum.op == &kolo::sum);
}
