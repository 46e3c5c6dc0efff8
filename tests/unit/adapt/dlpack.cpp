// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of other frameworks become views, and ranges become tensors, with the elements in place.
#include <kolo/adapt/dlpack.hpp>
#include <kolo/view/device.hpp>

#include "support/catch.hpp"

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace kolo;

namespace {

/// A tensor of another framework: 24 floats, element i of which is i.
struct foreign {
  std::vector<float> elements = std::vector<float>(24);
  std::vector<std::int64_t> shape, strides;
  DLTensor tensor{};

  explicit foreign(std::vector<std::int64_t> extents, std::vector<std::int64_t> distances = {}, std::uint64_t skip = 0)
      : shape{std::move(extents)}, strides{std::move(distances)} {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
    tensor = {.data = elements.data(),
              .device = {kDLCPU, 0},
              .ndim = static_cast<int>(shape.size()),
              .dtype = {kDLFloat, 32, 1},
              .shape = shape.data(),
              .strides = strides.empty() ? nullptr : strides.data(),
              .byte_offset = skip};
  }
};

template <View V>
std::vector<float> all(const V& view) {
  std::vector<float> elements;
  while (elements.size() < view.size())
    for (const float x : view.run(elements.size())) elements.push_back(x);
  return elements;
}

bool is_type(DLDataType type, DLDataType expected) { return detail::adapt::is_type(type, expected); }

template <class T = float>
std::string refused(const DLTensor& tensor) {
  try {
    (void)from_dlpack<T>(tensor);
  } catch (const error& e) {
    return e.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("the elements of a DLPack tensor are in the order of its indices", "[dlpack]") {
  const foreign dense{{2, 3, 4}};
  CHECK(from_dlpack<float>(dense.tensor).run(0).size() == 24);
  CHECK(all(from_dlpack<float>(dense.tensor)) == dense.elements);
  CHECK(all(from_dlpack<float>(foreign{{2, 3}, {1, 8}}.tensor)) == std::vector<float>{0, 8, 16, 1, 9, 17});
  CHECK(all(from_dlpack<float>(foreign{{3}, {-2}, 40}.tensor)) == std::vector<float>{10, 8, 6});
  CHECK(all(from_dlpack<float>(foreign{{}, {}, 20}.tensor)) == std::vector<float>{5});
  CHECK(all(from_dlpack<float>(foreign{{4, 0}}.tensor)).empty());
  CHECK(all(from_dlpack<float>(foreign{{1, 1, 1, 1, 1, 1, 2, 2}}.tensor)) == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("a DLPack tensor that differs from the request is refused with a reason", "[dlpack]") {
  foreign f{{2, 3}};
  f.tensor.device.device_type = kDLCUDA;
  CHECK(refused(f.tensor).find("lies on a device of type 2") != std::string::npos);
  CHECK_NOTHROW(from_dlpack<float, memory_space::device>(f.tensor));
  f.tensor.device.device_type = kDLCPU;
  CHECK_THROWS_AS((from_dlpack<float, memory_space::device>(f.tensor)), error);
  f.tensor.dtype = {kDLInt, 32, 1};
  CHECK(refused(f.tensor).find("type code 0 with 32 bits") != std::string::npos);
  f.tensor.dtype = {kDLFloat, 32, 4};
  CHECK(refused(f.tensor).find("4 lanes") != std::string::npos);
  CHECK(refused(foreign{{1, 1, 1, 1, 1, 1, 1, 1, 2}}.tensor).find("has 9 dimensions") != std::string::npos);
  CHECK(refused(foreign{{-2, -3}}.tensor).find("has a negative extent") != std::string::npos);
  CHECK(refused(foreign{{2}, {}, 2}.tensor).find("does not suit its elements") != std::string::npos);
}

TEST_CASE("a DLPack tensor whose elements share memory can be read, but not written", "[dlpack]") {
  const foreign expanded{{3, 2}, {0, 1}};
  CHECK(all(from_dlpack<const float>(expanded.tensor)) == std::vector<float>{0, 1, 0, 1, 0, 1});
  CHECK(refused<const float>(expanded.tensor) == "taken");
  CHECK(refused(expanded.tensor).find("has elements that share memory") != std::string::npos);
  CHECK(refused(foreign{{1, 2}, {0, 1}}.tensor) == "taken");
  CHECK(refused(foreign{{3, 0}, {0, 1}}.tensor) == "taken");
}

TEST_CASE("a vector moves into a DLPack tensor, which owns it until it is deleted", "[dlpack]") {
  auto alive = std::make_shared<int>(0);
  struct holder : std::vector<float> {
    std::shared_ptr<int> held;
  };
  holder mine{{1, 2, 3, 4, 5, 6}, alive};
  const float* const where = mine.data();
  dlpack_tensor out = to_dlpack(std::move(mine), {2, 3});
  const DLTensor& t = out->dl_tensor;
  CHECK(t.data == where);
  CHECK((t.ndim == 2 && t.shape[0] == 2 && t.shape[1] == 3));
  CHECK(all(from_dlpack<float>(t)) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(alive.use_count() == 2);
  DLManagedTensor* theirs = out.release();
  theirs->deleter(theirs);
  CHECK(alive.use_count() == 1);
  CHECK_THROWS_AS(to_dlpack(std::vector<float>(6), {2, 2}), error);
  CHECK_THROWS_AS(to_dlpack(std::vector<float>(6), {-2, -3}), error);
  CHECK_THROWS_AS(to_dlpack(std::vector<float>{}, {std::int64_t{1} << 32, std::int64_t{1} << 32}), error);
}

TEST_CASE("element types and devices are kept in a DLPack tensor", "[dlpack]") {
  std::vector<std::uint16_t> bytes(4);
  CHECK(is_type(to_dlpack(std::span{bytes})->dl_tensor.dtype, {kDLUInt, 16, 1}));
  std::vector<bfloat16> narrow(4);
  CHECK(is_type(to_dlpack(std::span{narrow})->dl_tensor.dtype, {kDLBfloat, 16, 1}));
  struct theirs {  // another library's, or std::bfloat16_t
    std::uint16_t bits;
    explicit theirs(float x) : bits{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)} {}
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  };
  std::vector<theirs> foreign_narrow(4, theirs{1});
  CHECK(is_type(to_dlpack(std::span{foreign_narrow})->dl_tensor.dtype, {kDLBfloat, 16, 1}));
  std::vector<float16> half(4);
  CHECK(is_type(to_dlpack(std::span{half})->dl_tensor.dtype, {kDLFloat, 16, 1}));
  std::vector<std::complex<double>> pairs(4);
  CHECK(is_type(to_dlpack(std::span{pairs})->dl_tensor.dtype, {kDLComplex, 128, 1}));
  CHECK_FALSE(detail::adapt::is_complex<std::complex<long double>>::value);  // 256 bits, of which DLPack would say 0
  double x = 0;
  const auto on_device = to_dlpack(device_span<double>{&x, 1}, {}, 3);
  CHECK((on_device->dl_tensor.device.device_type == kDLCUDA && on_device->dl_tensor.device.device_id == 3));
}
