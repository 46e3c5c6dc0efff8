// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DLPack, by which frameworks exchange tensors (NumPy, PyTorch, JAX, TVM, CuPy): their tensors as views, and contiguous
// elements as tensors for them. Opt-in; it needs dlpack/dlpack.h (libdlpack-dev).
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/elements.hpp>
#include <kolo/view/float16.hpp>
#include <kolo/view/view.hpp>

#include <dlpack/dlpack.h>

#include <array>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::adapt {

inline constexpr int dlpack_dimensions = 8;     ///< maximum
inline constexpr std::uint8_t dlpack_bool = 6;  ///< kDLBool, which headers before 0.8 do not define

constexpr bool is_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::bool_constant<16 * sizeof(T) <= 255> {};  // DLPack counts bits in a byte

/// Whether T is bfloat16, the upper bits of a float; else it is float16.
template <HalfPrecision T>
bool is_half_of_a_float() {
  return std::bit_cast<std::uint16_t>(static_cast<T>(1.0F)) == 0x3f80;
}

template <Element T>
DLDataType dlpack_type() {
  constexpr auto bits = std::uint8_t(8 * sizeof(T));
  if constexpr (std::is_same_v<T, bool>) return {dlpack_bool, bits, 1};
  else if constexpr (HalfPrecision<T>) return {std::uint8_t(is_half_of_a_float<T>() ? kDLBfloat : kDLFloat), bits, 1};
  else if constexpr (std::is_floating_point_v<T>) return {kDLFloat, bits, 1};
  else if constexpr (std::is_integral_v<T>) return {std::is_signed_v<T> ? kDLInt : kDLUInt, bits, 1};
  else {
    static_assert(is_complex<T>::value, "kolo: DLPack has no element type for this one");
    return {kDLComplex, bits, 1};
  }
}

[[noreturn]] inline void refuse_dlpack(const std::string& why) {
  throw error{errc::invalid_argument, "the DLPack tensor " + why};
}

/// Whether kolo can access memory of this type as memory_space S.
template <memory_space S>
constexpr bool dlpack_lies_in(DLDeviceType where) {
  if constexpr (S == memory_space::device) return where == kDLCUDA || where == kDLCUDAManaged;
  else return where == kDLCPU || where == kDLCUDAHost || where == kDLCUDAManaged;
}

}  // namespace detail::adapt

/// `kolo::allreduce(comm, kolo::from_dlpack<float>(tensor), kolo::sum);` Returns a view of the elements in the order of
/// the indices, the last one fastest, whatever the strides.
///
/// The view refers to the elements, which outlive it; shape and strides are copied. T is const for a tensor that is
/// only read. `S`: `memory_space::device` for a tensor of CUDA. Cost: no element is copied; a dense tensor in row-major
/// order is one run. Errors: `invalid_argument` for another element type, other memory, more than eight dimensions, a
/// negative extent, too many elements, an address that is not aligned for T; and for an expanded tensor if T is not
/// const.
template <class T, memory_space S = memory_space::host>
  requires(Element<std::remove_const_t<T>>)
strided<T, detail::adapt::dlpack_dimensions, S> from_dlpack(const DLTensor& tensor) {
  constexpr int most = detail::adapt::dlpack_dimensions;
  if (!detail::adapt::dlpack_lies_in<S>(tensor.device.device_type))
    detail::adapt::refuse_dlpack("lies on a device of type " + std::to_string(tensor.device.device_type));
  if (!detail::adapt::is_type(tensor.dtype, detail::adapt::dlpack_type<std::remove_const_t<T>>()))
    detail::adapt::refuse_dlpack("has elements of type code " + std::to_string(tensor.dtype.code) + " with " +
                                 std::to_string(tensor.dtype.bits) + " bits and " + std::to_string(tensor.dtype.lanes) +
                                 " lanes, which is not what was asked for");
  if (tensor.ndim < 0 || tensor.ndim > most)
    detail::adapt::refuse_dlpack("has " + std::to_string(tensor.ndim) + " dimensions; 0 to 8 can be taken");
  auto* const first = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (reinterpret_cast<std::uintptr_t>(first) % alignof(T) != 0)
    detail::adapt::refuse_dlpack("begins at an address that does not suit its elements");
  std::array<std::int64_t, most> extents{}, strides{};
  std::int64_t dense = 1;
  bool shares = false;
  for (int d = most - 1; d >= 0; --d) {
    const int theirs = d - (most - tensor.ndim);
    const auto i = std::size_t(d);
    extents[i] = theirs < 0 ? 1 : tensor.shape[theirs];
    strides[i] = theirs < 0 || tensor.strides == nullptr ? dense : tensor.strides[theirs];
    if (extents[i] < 0) detail::adapt::refuse_dlpack("has a negative extent");
    if (__builtin_mul_overflow(dense, extents[i], &dense))
      detail::adapt::refuse_dlpack("has more elements than can be counted");
    shares = shares || (strides[i] == 0 && extents[i] > 1);
  }
  if (!std::is_const_v<T> && shares && dense > 0)
    detail::adapt::refuse_dlpack(
        "has elements that share memory, as those of an expanded tensor do: from_dlpack<const T> takes it");
  return {reinterpret_cast<T*>(first), extents, strides};
}

namespace detail::adapt {
struct dlpack_deleter {
  void operator()(DLManagedTensor* t) const { t->deleter(t); }
};
}  // namespace detail::adapt

/// Owns a tensor for another framework: pass `release()` on, as a PyCapsule or to `at::fromDLPack`.
using dlpack_tensor = std::unique_ptr<DLManagedTensor, detail::adapt::dlpack_deleter>;

/// `to_dlpack(std::move(vector), {rows, columns})` keeps the vector until the other framework deletes the tensor;
/// `to_dlpack(std::span{v})` and other non-owning views refer to elements that must live as long.
///
/// `owner`: anything with `data()` and `size()`, whose elements may be written. `shape`: extents, whose product is the
/// number of elements; by default one dimension. `device`: the GPU of a `device_span`. Cost: two allocations, no copy
/// of an element. Errors: `invalid_argument` if the shape has another number of elements, or a negative extent.
template <class Owner>
  requires WritableViewLike<Owner&> && requires(Owner& o) { o.data(), o.size(); }
dlpack_tensor to_dlpack(Owner owner, std::vector<std::int64_t> shape = {}, int device = 0) {
  struct holder {
    DLManagedTensor tensor{};
    Owner owner;
    std::vector<std::int64_t> shape;
  };
  auto all = std::make_unique<holder>(holder{.tensor = {}, .owner = std::move(owner), .shape = std::move(shape)});
  const auto count = std::int64_t(all->owner.size());
  if (all->shape.empty()) all->shape = {count};
  std::int64_t holds = 1;
  for (const std::int64_t extent : all->shape) {
    if (extent < 0) detail::adapt::refuse_dlpack("would have a negative extent");
    if (__builtin_mul_overflow(holds, extent, &holds))
      detail::adapt::refuse_dlpack("would have more elements than can be counted");
  }
  if (holds != count)
    detail::adapt::refuse_dlpack("would have a shape of " + std::to_string(holds) + " elements, and there are " +
                                 std::to_string(count));
  constexpr bool on_device = space_of<view_of<Owner&>> == memory_space::device;
  DLTensor& t = all->tensor.dl_tensor;
  t = DLTensor{.data = all->owner.data(),
               .device = {on_device ? kDLCUDA : kDLCPU, on_device ? device : 0},
               .ndim = int(all->shape.size()),
               .dtype = detail::adapt::dlpack_type<view_element_t<Owner&>>(),
               .shape = all->shape.data(),
               .strides = nullptr,
               .byte_offset = 0};
  all->tensor.manager_ctx = all.get();
  all->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<holder*>(self->manager_ctx); };
  return dlpack_tensor{&all.release()->tensor};
}

}  // namespace kolo::inline KOLO_ABI
