// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is accepted as a view, strided tensors compared with plain loops, and the laws of `kolo::View`.
#include <kolo/view/bucket.hpp>
#include <kolo/view/strided.hpp>
#include <kolo/view/view.hpp>

#include <array>
#include <cstdint>
#include <list>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#if __has_include(<mdspan>)
#include <mdspan>
#endif
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#elif __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#endif

#include "support/catch.hpp"

namespace {

using kolo::strided;

/// Checks every law of a view, given the addresses of its elements.
template <kolo::View V>
void check_laws(const V& view, const std::vector<typename V::element_type*>& expected) {
  REQUIRE(view.size() == expected.size());
  const V copy = view;
  const kolo::memory erased = kolo::erase(copy);
  REQUIRE(erased.count == expected.size());
  REQUIRE(erased.element_bytes == sizeof(typename V::element_type));
  int wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const kolo::contiguous_run part = erased.at(i);
    wrong += part.count == 0 || part.count > expected.size() - i;
    wrong += part.data != reinterpret_cast<const std::byte*>(expected[i]);
    if constexpr (!kolo::ContiguousView<V>) {
      const auto run = view.run(i);
      for (std::size_t k = 0; k < run.size(); ++k) wrong += &run[k] != expected[i + k];
    }
  }
  CHECK(wrong == 0);
}

std::vector<int> numbers(std::size_t n) {
  std::vector<int> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}

}  // namespace

TEST_CASE("a contiguous range is a view of its elements") {
  STATIC_REQUIRE(kolo::View<std::span<float>>);
  STATIC_REQUIRE(kolo::View<std::span<const float>>);
  STATIC_REQUIRE(kolo::View<strided<float, 3>>);
  STATIC_REQUIRE(kolo::View<kolo::bucket<float>>);
  STATIC_REQUIRE_FALSE(kolo::View<std::vector<float>>);  // it owns its elements

  STATIC_REQUIRE(std::is_same_v<kolo::view_of<std::vector<float>>, std::span<float>>);
  STATIC_REQUIRE(std::is_same_v<kolo::view_of<const std::vector<float>&>, std::span<const float>>);
  STATIC_REQUIRE(std::is_same_v<kolo::view_of<std::array<int, 3>>, std::span<int>>);
  STATIC_REQUIRE(std::is_same_v<kolo::view_of<std::span<double, 4>>, std::span<double>>);
  STATIC_REQUIRE(std::is_same_v<kolo::view_of<const int[3]>, std::span<const int>>);
  STATIC_REQUIRE(std::is_same_v<kolo::view_of<const std::string>, std::span<const char>>);
  STATIC_REQUIRE(std::is_same_v<kolo::view_element_t<const std::vector<float>>, float>);
  STATIC_REQUIRE(kolo::WritableViewLike<const std::span<float>>);
  STATIC_REQUIRE_FALSE(kolo::WritableViewLike<const std::vector<float>>);

  int array[2][3] = {};
  CHECK(kolo::as_view(array).size() == 6);
  CHECK(kolo::as_view(array).data() == &array[0][0]);
  std::vector<float> v(7);
  CHECK(kolo::as_view(v).data() == v.data());
}

TEST_CASE("a range that is not contiguous, or whose elements refer to other memory, is no view") {
  STATIC_REQUIRE_FALSE(kolo::ViewLike<float>);
  STATIC_REQUIRE_FALSE(kolo::ViewLike<float*>);
  STATIC_REQUIRE_FALSE(kolo::ViewLike<std::vector<bool>>);
  STATIC_REQUIRE_FALSE(kolo::ViewLike<std::list<float>>);
  STATIC_REQUIRE_FALSE(kolo::ViewLike<std::vector<std::string>>);
  STATIC_REQUIRE_FALSE(kolo::ViewLike<std::vector<std::span<float>>>);
  STATIC_REQUIRE_FALSE(kolo::ViewLike<std::vector<strided<float, 2>>>);
  STATIC_REQUIRE(kolo::ViewLike<std::vector<std::array<float, 3>>>);
  const auto lambda = [](float a, float b) { return a + b; };
  STATIC_REQUIRE_FALSE(kolo::ViewLike<decltype(lambda)>);
}

TEST_CASE("only ranges that own their elements must be lvalues") {
  STATIC_REQUIRE(kolo::Borrowed<std::vector<float>&>);
  STATIC_REQUIRE_FALSE(kolo::Borrowed<std::vector<float>>);
  STATIC_REQUIRE(kolo::Borrowed<std::span<float>>);
  STATIC_REQUIRE(kolo::Borrowed<strided<float, 1>>);
}

TEST_CASE("a strided tensor enumerates its elements in row-major order") {
  auto memory = numbers(1000);
  int* const p = memory.data();
  struct shape {
    std::array<int, 3> extents, strides;
    int first = 0;
  };
  const std::vector<shape> shapes{{{2, 3, 4}, {12, 4, 1}},  {{2, 3, 4}, {100, 4, 1}},     {{2, 3, 4}, {100, 7, 1}},
                                  {{2, 3, 4}, {1, 2, 6}},   {{2, 3, 4}, {-12, 4, 1}, 50}, {{2, 3, 4}, {12, -4, -1}, 50},
                                  {{1, 3, 4}, {999, 4, 1}}, {{2, 1, 4}, {4, 999, 1}},     {{2, 3, 1}, {3, 1, 999}},
                                  {{2, 3, 1}, {9, 3, 999}}, {{1, 1, 1}, {5, 5, 5}},       {{2, 0, 4}, {12, 4, 1}},
                                  {{5, 7, 3}, {0, 3, 1}},   {{4, 4, 2}, {50, 3, 2}},      {{2, 3, 0}, {1, 1, 1}}};
  for (const auto& s : shapes) {
    std::vector<int*> expected;
    for (int i = 0; i < s.extents[0]; ++i)
      for (int j = 0; j < s.extents[1]; ++j)
        for (int k = 0; k < s.extents[2]; ++k)
          expected.push_back(p + s.first + i * s.strides[0] + j * s.strides[1] + k * s.strides[2]);
    check_laws(strided<int, 3>{p + s.first, s.extents, s.strides}, expected);
  }
}

TEST_CASE("inner dimensions without gaps are one run") {
  auto memory = numbers(1000);
  const auto run = [&](std::array<int, 3> extents, std::array<int, 3> strides) {
    return strided<int, 3>{memory.data(), extents, strides}.run(0).size();
  };
  CHECK(run({2, 3, 4}, {12, 4, 1}) == 24);
  CHECK(run({2, 3, 4}, {13, 4, 1}) == 12);
  CHECK(run({2, 3, 4}, {13, 5, 1}) == 4);
  CHECK(run({2, 3, 4}, {24, 8, 2}) == 1);
  CHECK(run({2, 1, 4}, {4, 77, 1}) == 8);
  CHECK(kolo::erase(strided<int, 2>{memory.data(), {3, 4}, {4, 1}}).find == nullptr);
}

TEST_CASE("extents and strides may be any integers, mixed") {
  auto memory = numbers(100);
  const int rows = 3;
  const std::size_t stride = 10;
  const strided<int, 2> columns{memory.data(), {rows, 4}, {stride, 1}};
  check_laws(columns, [&] {
    std::vector<int*> expected;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 4; ++j) expected.push_back(memory.data() + i * stride + j);
    return expected;
  }());
  const strided<const int, 2> backwards{memory.data() + 99, {std::int8_t{2}, 3U}, {-10L, std::int16_t{-1}}};
  CHECK(backwards.run(5)[0] == 99 - 12);
  CHECK(backwards.extent(1) == 3);
  CHECK(backwards.stride(0) == -10);
  const strided<int, 1> every_other{memory.data(), {rows}, {2}};
  CHECK(every_other.run(2)[0] == 4);
  CHECK_THROWS_AS((strided<int, 2>{memory.data(), {-1, 4}, {4, 1}}), std::invalid_argument);
  CHECK_THROWS_AS((strided<int, 2>{memory.data(), {std::int64_t{1} << 62, 5}, {0, 0}}), std::invalid_argument);
  CHECK(strided<int, 3>{memory.data(), {std::int64_t{1} << 62, 5, 0}, {0, 0, 1}}.size() == 0);
  constexpr static int constant[6] = {0, 1, 2, 3, 4, 5};
  STATIC_REQUIRE(strided<const int, 2>{constant, {2, 2}, {3, 1}}.run(3)[0] == 4);
}

#ifdef EIGEN_CORE_H
TEST_CASE("Eigen's matrices and parts of them are views, in the order in which the matrix is stored") {
  STATIC_REQUIRE(kolo::ContiguousView<kolo::view_of<Eigen::MatrixXf>>);
  STATIC_REQUIRE(kolo::ContiguousView<kolo::view_of<Eigen::Map<Eigen::VectorXf>>>);
  STATIC_REQUIRE_FALSE(kolo::WritableViewLike<const Eigen::MatrixXf>);
  STATIC_REQUIRE_FALSE(kolo::WritableViewLike<Eigen::Map<const Eigen::VectorXf>>);
  Eigen::MatrixXi m = Eigen::MatrixXi::Zero(5, 6);
  std::vector<int*> expected;
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 2; ++i) expected.push_back(&m(1 + i, 2 + j));
  auto part = m.block(1, 2, 2, 3);
  check_laws(kolo::as_view(part), expected);
  auto row = m.row(2);
  check_laws(kolo::as_view(row), {&m(2, 0), &m(2, 1), &m(2, 2), &m(2, 3), &m(2, 4), &m(2, 5)});
  Eigen::Map<Eigen::MatrixXi> whole{m.data(), 5, 6};
  CHECK(kolo::erase(kolo::as_view(whole)).find == nullptr);
  CHECK(kolo::bucket{m.block(0, 0, 2, 2), m}.size() == 34);
}
#endif

namespace {

/// Models the standard's accessors: `access` returns `Reference`, here a T& or something else.
template <class T, class Reference>
struct accessor_returning {
  Reference access(T* first, std::size_t i) const { return first[i]; }
};

/// Models `std::mdspan<T, std::dextents<int, 2>, std::layout_stride, accessor_returning<...>>`, which no library here has.
template <class T, class Reference = T&>
struct mdspan_of_two {
  using element_type = T;
  struct mapping_type {};
  T* first;
  std::array<int, 2> extents, strides;

  static constexpr std::size_t rank() { return 2; }
  static constexpr bool is_always_strided() { return true; }
  T* data_handle() const { return first; }
  mapping_type mapping() const { return {}; }
  accessor_returning<T, Reference> accessor() const { return {}; }
  int extent(std::size_t d) const { return extents[d]; }
  int stride(std::size_t d) const { return strides[d]; }
  std::size_t size() const { return static_cast<std::size_t>(extents[0] * extents[1]); }
};

}  // namespace

// Trivially copyable, but its pointer is invalid on another rank.
static_assert(!kolo::ViewLike<std::vector<std::string_view>&> && !kolo::ViewLike<std::vector<std::span<int, 4>>&>);
static_assert(!kolo::ViewLike<std::vector<std::span<int>>&> && !kolo::ViewLike<std::vector<kolo::strided<int, 2>>&>);

TEST_CASE("an mdspan is a view in the order of its indices, whatever its layout") {
  std::array<float, 12> a{};
  check_laws(kolo::as_view(mdspan_of_two<float>{a.data(), {2, 3}, {3, 1}}), {&a[0], &a[1], &a[2], &a[3], &a[4], &a[5]});
  check_laws(kolo::as_view(mdspan_of_two<float>{a.data(), {2, 3}, {1, 4}}), {&a[0], &a[4], &a[8], &a[1], &a[5], &a[9]});
  static_assert(kolo::Borrowed<mdspan_of_two<float>>);
  static_assert(kolo::WritableViewLike<const mdspan_of_two<float>&>);
  static_assert(!kolo::WritableViewLike<mdspan_of_two<const float>&>);
  static_assert(!kolo::ViewLike<mdspan_of_two<float, float>>);  // as std::linalg::scaled's: its elements are computed
#ifdef __cpp_lib_mdspan
  const std::mdspan<float, std::extents<int, 2, 3>, std::layout_left> by_columns{a.data()};
  check_laws(kolo::as_view(by_columns), {&a[0], &a[2], &a[4], &a[1], &a[3], &a[5]});
#endif
  CHECK(kolo::as_view(mdspan_of_two<float>{a.data(), {3, 4}, {4, 1}}).run(0).size() == 12);
}

TEST_CASE("a bucket contains its tensors one after the other, without the empty ones") {
  std::vector<int> a = numbers(5), none, b = numbers(3);
  auto matrix = numbers(40);
  const strided<int, 2> part{matrix.data(), {3, 2}, {10, 1}};
  std::vector<int*> expected;
  const auto expect = [&](std::vector<int>& v) {
    for (int& x : v) expected.push_back(&x);
  };
  expect(a);
  expect(b);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 2; ++j) expected.push_back(&matrix[10 * i + j]);
  expect(a);
  check_laws(kolo::bucket{none, a, none, std::span{b}, part, none, a}, expected);
  check_laws(kolo::bucket{none}, {});
  check_laws(kolo::bucket{kolo::bucket{none, a, none}, kolo::bucket{b, part, a}}, expected);
  kolo::bucket moved{a, b};
  check_laws(kolo::bucket{std::move(moved)}, {expected.begin(), expected.begin() + 8});
  check_laws(moved, {});  // NOLINT: it was moved from
}

namespace of_a_program {
struct even_elements {
  using element_type = int;
  std::span<int> all;
  std::size_t size() const { return all.size() / 2; }
  std::span<int> run(std::size_t i) const { return all.subspan(2 * i, 1); }
};
void run_of(const even_elements&, std::size_t) = delete;  // named like a function of the library's
}  // namespace of_a_program

TEST_CASE("a bucket of a program's views calls no function of the program's but run") {
  auto a = numbers(6);
  check_laws(kolo::bucket{of_a_program::even_elements{a}, of_a_program::even_elements{std::span{a}.first(2)}},
             {&a[0], &a[2], &a[4], &a[0]});
}

TEST_CASE("a bucket can be made from a list at run time") {
  std::vector<std::vector<int>> tensors{numbers(4), {}, numbers(1), numbers(7)};
  std::vector<std::span<int>> views(tensors.begin(), tensors.end());
  std::vector<int*> expected;
  for (auto& t : tensors)
    for (int& x : t) expected.push_back(&x);
  check_laws(kolo::bucket{std::span{views}}, expected);
  check_laws(kolo::bucket{views}, expected);
  check_laws(kolo::bucket{std::span{tensors}}, expected);
  check_laws(kolo::bucket{std::span{views}.first(2), std::span{views}.subspan(2)}, expected);
  views.clear();
  check_laws(kolo::bucket{std::span{views}}, {});

  std::vector<strided<int, 1>> parts;
  for (auto& t : tensors) parts.push_back({t.data(), {t.size() / 2}, {2}});
  check_laws(kolo::bucket{std::span{parts}},
             {&tensors[0][0], &tensors[0][2], &tensors[3][0], &tensors[3][2], &tensors[3][4]});
}

TEST_CASE("adjacent tensors are one run, and one const tensor makes a const bucket") {
  auto memory = numbers(10);
  const std::span<int> all{memory};
  const kolo::bucket whole{all.first(3), all.subspan(3)};
  CHECK(whole.run(0).size() == 10);
  CHECK(kolo::erase(whole).find == nullptr);
  const std::vector<int> fixed(2);
  const kolo::bucket readable{memory, fixed};
  STATIC_REQUIRE(std::is_same_v<decltype(readable), const kolo::bucket<const int>>);
  CHECK(readable.run(10).data() == fixed.data());
  const kolo::bucket copy{whole};
  STATIC_REQUIRE(std::is_same_v<decltype(copy), const kolo::bucket<int>>);
  CHECK(copy.run(4).data() == memory.data() + 4);
}
