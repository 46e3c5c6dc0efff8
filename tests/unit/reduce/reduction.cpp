// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators by name on elements by name: which are defined, and that they equal the typed operators; and kernels of functions over blocks.
#include <kolo/reduce/reduction.hpp>

#include <complex>
#include <vector>

#include "support/catch.hpp"
#include "support/compose.hpp"

using kolo::element_type, kolo::reduction;

namespace {

/// a op b, of one element each; empty if it is not defined.
template <class T>
std::vector<T> result(element_type type, reduction op, T a, T b, int ranks = 0) {
  const kolo::kernel k = kolo::make_kernel(type, op);
  if (!k.combine) return {};
  CHECK((k.element_bytes == sizeof(T) && k.wire_bytes == sizeof(T) && kolo::size_of(type) == sizeof(T)));
  const kolo::source both[] = {{reinterpret_cast<const std::byte*>(&a), false},
                               {reinterpret_cast<const std::byte*>(&b), false}};
  std::vector<T> c(1);
  k.combine(k.op, reinterpret_cast<std::byte*>(c.data()), both, 2, 1, ranks);
  return c;
}

template <class T>
void check_integer(element_type type) {
  const T a = 6, b = static_cast<T>(T{0} - T{3});  // near the largest, if T is unsigned
  const auto is = [&](reduction op, T wanted) { return result<T>(type, op, a, b) == std::vector<T>{wanted}; };
  CHECK(is(reduction::sum, static_cast<T>(a + b)));
  CHECK(is(reduction::product, static_cast<T>(6u * static_cast<std::uint64_t>(b))));
  CHECK((is(reduction::min, std::min(a, b)) && is(reduction::max, std::max(a, b))));
  CHECK((is(reduction::bit_and, static_cast<T>(a & b)) && is(reduction::bit_or, static_cast<T>(a | b))));
  CHECK(is(reduction::bit_xor, static_cast<T>(a ^ b)));
  CHECK((is(reduction::logical_and, 1) && is(reduction::logical_or, 1) && is(reduction::logical_xor, 0)));
  CHECK((result<T>(type, reduction::logical_and, a, 0) == std::vector<T>{0} &&
         result<T>(type, reduction::logical_or, 0, 0) == std::vector<T>{0} &&
         result<T>(type, reduction::logical_xor, 0, b) == std::vector<T>{1}));
  CHECK(result<T>(type, reduction::average, a, b).empty());
}

template <class T>
void check_real(element_type type) {
  const auto is = [&](reduction op, double wanted, int ranks = 0) {
    const auto c = result<T>(type, op, T(6.0F), T(-3.0F), ranks);
    return c.size() == 1 && static_cast<double>(c[0]) == wanted;
  };
  CHECK((is(reduction::sum, 3) && is(reduction::product, -18) && is(reduction::min, -3) && is(reduction::max, 6)));
  CHECK(is(reduction::average, 1.5, 2));
  for (const auto op : {reduction::bit_and, reduction::bit_or, reduction::bit_xor, reduction::logical_and,
                        reduction::logical_or, reduction::logical_xor})
    CHECK(result<T>(type, op, T(1.0F), T(1.0F)).empty());
}

template <class T>
void check_complex(element_type type) {
  const std::complex<T> a{1, 2}, b{3, -1};
  using result_type = std::vector<std::complex<T>>;
  CHECK(result(type, reduction::sum, a, b) == result_type{a + b});
  CHECK(result(type, reduction::product, a, b) == result_type{a * b});
  CHECK(result(type, reduction::average, a, b, 2) == result_type{(a + b) / T{2}});
  CHECK((result(type, reduction::min, a, b).empty() && result(type, reduction::bit_or, a, b).empty()));
}

void add_bytes(const std::byte* in, std::byte* inout, std::size_t n) {
  for (std::size_t i = 0; i < 2 * n; ++i)
    inout[i] = static_cast<std::byte>(static_cast<unsigned>(in[i]) + static_cast<unsigned>(inout[i]));
}

/// The result of n sources, in source `place` or elsewhere (-1), must be that of combining one after the other.
template <class F>
void check_blocks(F f, bool commutes, int n, int place, std::size_t count) {
  const kolo::block_function<F> by{2, f, commutes};
  const kolo::kernel k = by.kernel();
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(n), std::vector<std::byte>(2 * count));
  for (std::size_t s = 0; s < all.size(); ++s)
    for (std::size_t i = 0; i < 2 * count; ++i) all[s][i] = static_cast<std::byte>(7 * s + 3 * i + 1);
  std::vector<std::byte> wanted = all[0], out(2 * count);
  for (std::size_t s = 1; s < all.size(); ++s) {
    auto right = all[s];
    f(wanted.data(), right.data(), count);
    wanted = right;
  }
  std::vector<kolo::source> sources;
  for (const auto& one : all) sources.push_back({one.data(), false});
  auto& result = place < 0 ? out : all[static_cast<std::size_t>(place)];
  k.combine(k.op, result.data(), sources.data(), n, count, 0);
  INFO(n << " sources, " << count << " elements, the result in " << place);
  CHECK(result == wanted);
}

}  // namespace

TEST_CASE("every operator on every type is right, or not defined") {
  check_integer<std::int8_t>(element_type::int8);
  check_integer<std::int16_t>(element_type::int16);
  check_integer<std::int32_t>(element_type::int32);
  check_integer<std::int64_t>(element_type::int64);
  check_integer<std::uint8_t>(element_type::uint8);
  check_integer<std::uint16_t>(element_type::uint16);
  check_integer<std::uint32_t>(element_type::uint32);
  check_integer<std::uint64_t>(element_type::uint64);
  check_real<kolo::float16>(element_type::float16);
  check_real<kolo::bfloat16>(element_type::bfloat16);
  check_real<float>(element_type::float32);
  check_real<double>(element_type::float64);
  check_real<long double>(element_type::long_double);
  check_complex<float>(element_type::complex64);
  check_complex<double>(element_type::complex128);
}

TEST_CASE("booleans stay 0 or 1") {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      const auto is = [&](std::initializer_list<reduction> ops, bool wanted) {
        for (const auto op : ops)
          CHECK(result<std::uint8_t>(element_type::boolean, op, a, b) == std::vector<std::uint8_t>{wanted});
      };
      is({reduction::sum, reduction::max, reduction::bit_or, reduction::logical_or}, a || b);
      is({reduction::product, reduction::min, reduction::bit_and, reduction::logical_and}, a && b);
      is({reduction::bit_xor, reduction::logical_xor}, a != b);
    }
  CHECK(result<std::uint8_t>(element_type::boolean, reduction::average, 1, 1).empty());
}

TEST_CASE("types and operators that are opaque or unknown have no kernel") {
  CHECK(kolo::make_kernel(element_type::opaque, reduction::sum).combine == nullptr);
  CHECK(kolo::make_kernel(static_cast<element_type>(99), reduction::sum).combine == nullptr);
  CHECK(kolo::make_kernel(element_type::int32, static_cast<reduction>(99)).combine == nullptr);
  CHECK(
      (kolo::name(element_type::complex128) == "complex128" && kolo::name(static_cast<element_type>(99)) == "unknown"));
  CHECK((kolo::name(reduction::logical_xor) == "logical_xor" && kolo::name(static_cast<reduction>(99)) == "unknown"));
  CHECK(kolo::size_of(static_cast<element_type>(99)) == 0);
}

TEST_CASE("a function over blocks, with the result in any place") {
  for (const std::size_t count : {0u, 1u, 5u, 8191u, 8192u, 20000u})
    for (int n = 1; n <= 4; ++n)
      for (int place = -1; place < n; ++place) {
        check_blocks(&compose_bytes, false, n, place, count);
        check_blocks(&add_bytes, true, n, place, count);
      }
}
