// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements whose type is known at run time only: their address, their number, and their type by name, or their size in
// bytes.
#pragma once

#include <kolo/view/view.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

/// The element types that MPI, NCCL and c10d have in common with kolo, by name. `boolean`: a byte that is 0 or 1.
/// `opaque`: any bytes, with a given number per element.
enum class element_type : std::uint8_t {
  opaque,
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  long_double,
  complex64,  ///< two floats
  complex128  ///< two doubles
};

/// Bytes of an element; 0 for `opaque`, which does not specify it, and for values that are no type.
constexpr std::size_t size_of(element_type type) {
  using enum element_type;
  switch (type) {
    case boolean:
    case int8:
    case uint8: return 1;
    case int16:
    case uint16:
    case float16:
    case bfloat16: return 2;
    case int32:
    case uint32:
    case float32: return 4;
    case int64:
    case uint64:
    case float64:
    case complex64: return 8;
    case long_double: return sizeof(long double);
    case complex128: return 16;
    default: return 0;
  }
}

constexpr std::string_view name(element_type type) {
  constexpr std::string_view names[] = {"opaque",  "boolean", "int8",        "int16",     "int32",     "int64",
                                        "uint8",   "uint16",  "uint32",      "uint64",    "float16",   "bfloat16",
                                        "float32", "float64", "long_double", "complex64", "complex128"};
  const auto i = std::size_t(type);
  return i < std::size(names) ? names[i] : "unknown";
}

/// elements{pointer, count, type}     contiguous elements of a type that is known at run time
/// elements{pointer, count, bytes}    of this many bytes each, of any type
///
/// A view in the host's memory, for every collective; read-only if the pointer is to const. All views of a call have
/// the same type. A rank whose view does not matter (the output of a reduce on other ranks than the root) passes
/// {nullptr, 0, type}. The elements of an operator that is known by its name (`kolo::reduction`) need a type; those of
/// a `kolo::by_kernel` may be opaque.
template <class X = detail::view::unknown_element>
class elements {
  using pointer = std::conditional_t<std::is_const_v<X>, const void*, void*>;

 public:
  using element_type = X;

  constexpr elements(pointer data, std::size_t count, kolo::element_type type)
      : data_{data}, count_{count}, bytes_{size_of(type)}, type_{type} {}
  constexpr elements(pointer data, std::size_t count, std::size_t bytes_each)
      : data_{data}, count_{count}, bytes_{bytes_each} {}

  constexpr pointer data() const { return data_; }                ///< where they lie
  constexpr std::size_t size() const { return count_; }           ///< how many elements
  constexpr std::size_t element_bytes() const { return bytes_; }  ///< bytes of one
  constexpr kolo::element_type type() const { return type_; }     ///< `opaque` if not given

  /// The same as untyped memory.
  memory erased() const {
    return {.base = static_cast<std::byte*>(const_cast<void*>(data_)), .count = count_, .element_bytes = bytes_};
  }

 private:
  pointer data_;
  std::size_t count_, bytes_;
  kolo::element_type type_ = kolo::element_type::opaque;
};

elements(void*, std::size_t, kolo::element_type)->elements<>;
elements(void*, std::size_t, std::size_t)->elements<>;
elements(const void*, std::size_t, kolo::element_type)->elements<const detail::view::unknown_element>;
elements(const void*, std::size_t, std::size_t)->elements<const detail::view::unknown_element>;
elements(std::nullptr_t, std::size_t, kolo::element_type)->elements<>;
elements(std::nullptr_t, std::size_t, std::size_t)->elements<>;

}  // namespace kolo::inline KOLO_ABI
