// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// User-defined elements of 3, 16 and 100 bytes and without a default constructor, and user-defined operators.
#include <kolo/scaled.hpp>

#include <cmath>

#include "collectives/operators.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

struct colour {
  unsigned char red, green, blue;
};
struct matrix {  // [a b; c d] modulo 2^32
  std::uint32_t a, b, c, d;
};
struct times {
  static constexpr bool commutative = false;
  constexpr matrix operator()(const matrix& x, const matrix& y) const {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
  }
};
struct histogram {
  std::uint32_t bins[25];
};
class sealed {
 public:
  explicit sealed(int value) : value_{value} {}
  sealed larger_of(const sealed& other) const { return value_ < other.value_ ? other : *this; }

 private:
  int value_;
};

constexpr auto mix = [](colour x, colour y) {
  return colour{static_cast<unsigned char>(x.red + y.red), static_cast<unsigned char>(x.green ^ y.green),
                static_cast<unsigned char>(x.blue * y.blue)};
};
constexpr auto join = [](histogram x, const histogram& y) {
  for (int i = 0; i < 25; ++i) x.bins[i] += y.bins[i];
  return x;
};
constexpr auto larger = [](const sealed& x, const sealed& y) { return x.larger_of(y); };

colour colour_of(int r, std::size_t i) {
  return {static_cast<unsigned char>(40 * r), static_cast<unsigned char>(i), static_cast<unsigned char>(2 * r + 1)};
}
matrix matrix_of(int r, std::size_t i) {
  const auto k = static_cast<std::uint32_t>(i);
  return {static_cast<std::uint32_t>(r + 2), k + 1, 3, k * 7 + 5};
}
histogram histogram_of(int r, std::size_t i) {
  histogram h{};
  h.bins[(static_cast<std::size_t>(r) + i) % 25] = static_cast<std::uint32_t>(r + 1);
  h.bins[24] += 1;
  return h;
}

}  // namespace

TEST_CASE("user-defined elements and operators") {
  static_assert(sizeof(colour) == 3 && sizeof(matrix) == 16 && sizeof(histogram) == 100);
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          try_operator<colour>(comm, wrong, "3-byte structs", mix, mix, colour_of);
          try_operator<matrix>(comm, wrong, "products of matrices", times{}, times{}, matrix_of);
          try_operator<histogram>(comm, wrong, "100-byte structs", join, join, histogram_of);
          try_operator<sealed>(comm, wrong, "elements without a default constructor", larger, larger,
                               [](int r, std::size_t i) { return sealed{number(r, i)}; });
        }) == "");
}

TEST_CASE("a function pointer is an operator") {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          int (*const gcd)(int, int) = [](int a, int b) {
            while (b != 0) a = std::exchange(b, a % b);
            return a;
          };
          try_operator<int>(comm, wrong, "gcd", gcd, gcd,
                            [](int r, std::size_t i) { return 60 * (r + 1) * static_cast<int>(i % 7 + 1); });
        }) == "");
}

TEST_CASE("an operator may have state") {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          const auto at_most = [limit = 40](int a, int b) { return std::min(limit, a + b); };
          try_operator<int>(comm, wrong, "saturating sums", at_most, at_most,
                            [](int r, std::size_t i) { return r + static_cast<int>(i % 9); });
        }) == "");
}

namespace {

struct root_of_sum {
  float operator()(float a, float b) const { return a + b; }
  float finish(float x, int) const { return std::sqrt(x); }
};

/// The sum over the ranks is 16. Their number is a power of two.
template <class C>
void try_finish(C& comm, complaints& wrong) {
  const auto p = static_cast<std::size_t>(comm.size());
  const std::vector<float> in(24, 16.0F / static_cast<float>(p)), all_root(24, 4.0F), part_root(24 / p, 4.0F);
  const int r = comm.rank();
  std::vector<float> out(24), part(24 / p), spread(48), x = in;
  kolo::allreduce(comm, in, out, root_of_sum{});
  expect_same(wrong, "allreduce", r, out, all_root);
  kolo::allreduce(comm, x, root_of_sum{});
  expect_same(wrong, "allreduce in place", r, x, all_root);
  for (std::size_t i = 0; i < 24; ++i) spread[2 * i] = in[i];
  kolo::allreduce(comm, kolo::strided<float, 1>{spread.data(), {24}, {2}}, root_of_sum{});
  for (std::size_t i = 0; i < 24; ++i) x[i] = spread[2 * i];
  expect_same(wrong, "allreduce, strided", r, x, all_root);
  kolo::start_allreduce(comm, in, x, kolo::wire<kolo::bfloat16>(root_of_sum{})).wait();
  expect_same(wrong, "allreduce with a wire", r, x, all_root);
  kolo::allreduce(comm, in, x, kolo::wire<kolo::scaled<std::int8_t, 8>>(root_of_sum{}));
  for (const float root : x) wrong.expect(std::fabs(root - 4) < 0.1F, "allreduce with scales on the wire");
  kolo::allreduce(comm, in, x, root_of_sum{}, kolo::ring{});
  expect_same(wrong, "allreduce by a ring", r, x, all_root);
  x = in;
  kolo::reduce(comm, in, x, root_of_sum{}, 0);
  if (r == 0) expect_same(wrong, "reduce", r, x, all_root);
  auto scattered = kolo::plan_reduce_scatter(comm, in, part, root_of_sum{});
  for (int i = 0; i < 2; ++i) scattered.run();
  expect_same(wrong, "reduce_scatter", r, part, part_root);
  const std::vector<int> counts(p, static_cast<int>(24 / p));
  std::fill(part.begin(), part.end(), 0.0F);
  kolo::reduce_scatter(comm, in, part, counts, root_of_sum{});
  expect_same(wrong, "reduce_scatter with counts", r, part, part_root);
}

}  // namespace

TEST_CASE("an operator's finish is applied on any number of ranks, one included") {
  for (const int p : {1, 2, 4}) {
    const auto each = [](auto& comm, complaints& wrong) { try_finish(comm, wrong); };
    CHECK(on_ranks(p, each) == "");
    CHECK(on_ranks<over_messages>(p, each) == "");
  }
  kolo::self::communicator alone;
  complaints wrong;
  try_finish(alone, wrong);
  CHECK(wrong.text() == "");
  std::vector<float> x{std::nextafter(1.0F, 2.0F)};
  const float before = x[0];
  kolo::allreduce(alone, x, kolo::average);
  CHECK(x[0] == before);
}

TEST_CASE("elements that are not combined may be of any size") {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          const int r = comm.rank(), p = comm.size();
          auto x = filled<colour>(77, [&](std::size_t i) { return colour_of(r, i); });
          kolo::broadcast(comm, x, p - 1, kolo::chain{.segments = 4});
          expect_same(wrong, "broadcast of 3-byte structs", r, x,
                      filled<colour>(77, [&](std::size_t i) { return colour_of(p - 1, i); }));
          const auto part = filled<histogram>(3, [&](std::size_t i) { return histogram_of(r, i); });
          std::vector<histogram> all(3 * static_cast<std::size_t>(p));
          kolo::allgather(comm, part, all);
          for (int q = 0; q < p; ++q) {
            const auto wanted = filled<histogram>(3, [&](std::size_t i) { return histogram_of(q, i); });
            expect_bytes(wrong, "allgather of 100-byte structs", r, all.data() + 3 * q, wanted.data(), 3,
                         sizeof(histogram));
          }
        }) == "");
}

TEST_CASE("elements need not be aligned") {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          constexpr std::size_t n = 61;
          const int r = comm.rank();
          std::vector<std::byte> bytes(n * sizeof(float) + 1);
          const auto in = filled<float>(n, [&](std::size_t i) { return static_cast<float>(number(r, i)); });
          std::memcpy(bytes.data() + 1, in.data(), n * sizeof(float));
          kolo::allreduce(comm, std::span{reinterpret_cast<float*>(bytes.data() + 1), n}, kolo::sum);
          const auto wanted = combined<float>(
              0, comm.size(), n, [](float a, float b) { return a + b; },
              [](int q, std::size_t i) { return static_cast<float>(number(q, i)); });
          expect_bytes(wrong, "a sum of unaligned floats", r, bytes.data() + 1, wanted.data(), n, sizeof(float));
        }) == "");
}
