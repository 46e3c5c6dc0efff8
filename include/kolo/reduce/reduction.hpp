// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators chosen at run time: by name, for elements of a named type, or as a user's kernel.
#pragma once

#include <kolo/reduce/kernel.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/elements.hpp>
#include <kolo/view/float16.hpp>

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <vector>

// g++ 12 warns that an enumerator hides the operator of the same name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

namespace kolo::inline KOLO_ABI {

/// The operators that MPI, NCCL and c10d name: those of operators.hpp, and MPI's logical ones, whose results are 0 or
/// 1. (For MPI's MINLOC and MAXLOC write a kernel.)
enum class reduction : std::uint8_t {
  sum,
  product,
  min,
  max,
  average,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor
};

#pragma GCC diagnostic pop

constexpr std::string_view name(reduction op) {
  constexpr std::string_view names[] = {"sum",    "product", "min",         "max",        "average",    "bit_and",
                                        "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};
  const auto i = std::size_t(op);
  return i < std::size(names) ? names[i] : "unknown";
}

namespace detail::reduce {

inline constexpr auto logical_and = []<std::integral T>(T a, T b) { return static_cast<T>(a != 0 && b != 0); };
inline constexpr auto logical_or = []<std::integral T>(T a, T b) { return static_cast<T>(a != 0 || b != 0); };
inline constexpr auto logical_xor = []<std::integral T>(T a, T b) { return static_cast<T>((a != 0) != (b != 0)); };

/// Returns a kernel without `combine` if the operator is not defined on T.
template <class T, class Op>
kernel kernel_if_defined(const Op& op) {
  if constexpr (operator_accepts<Op, T>) return make_kernel<T>(op);
  else return {};
}

template <class T>
struct same_bits_unsigned : std::type_identity<T> {};
template <std::integral T>
struct same_bits_unsigned<T> : std::make_unsigned<T> {};

template <class T>
kernel kernel_on(reduction op) {
  using U = typename same_bits_unsigned<T>::type;  // signed and unsigned sums have the same bits
  switch (op) {
    case reduction::sum: return kernel_if_defined<U>(sum);
    case reduction::product: return kernel_if_defined<U>(product);
    case reduction::min: return kernel_if_defined<T>(min);
    case reduction::max: return kernel_if_defined<T>(max);
    case reduction::average: return kernel_if_defined<U>(average);
    case reduction::bit_and: return kernel_if_defined<U>(bit_and);
    case reduction::bit_or: return kernel_if_defined<U>(bit_or);
    case reduction::bit_xor: return kernel_if_defined<U>(bit_xor);
    case reduction::logical_and: return kernel_if_defined<U>(logical_and);
    case reduction::logical_or: return kernel_if_defined<U>(logical_or);
    case reduction::logical_xor: return kernel_if_defined<U>(logical_xor);
  }
  return {};
}

/// The kernel for bytes that are 0 or 1.
inline kernel kernel_on_booleans(reduction op) {
  switch (op) {
    case reduction::sum:
    case reduction::max:
    case reduction::bit_or:
    case reduction::logical_or: return make_kernel<std::uint8_t>(bit_or);
    case reduction::product:
    case reduction::min:
    case reduction::bit_and:
    case reduction::logical_and: return make_kernel<std::uint8_t>(bit_and);
    case reduction::bit_xor:
    case reduction::logical_xor: return make_kernel<std::uint8_t>(bit_xor);
    default: return {};
  }
}

/// A template, so that programs that name no operator do not compile it. In compiled mode the library instantiates it.
template <class Reduction>
kernel kernel_by_name(element_type type, Reduction op) {
  switch (type) {
    case element_type::boolean: return kernel_on_booleans(op);
    case element_type::int8: return kernel_on<std::int8_t>(op);
    case element_type::int16: return kernel_on<std::int16_t>(op);
    case element_type::int32: return kernel_on<std::int32_t>(op);
    case element_type::int64: return kernel_on<std::int64_t>(op);
    case element_type::uint8: return kernel_on<std::uint8_t>(op);
    case element_type::uint16: return kernel_on<std::uint16_t>(op);
    case element_type::uint32: return kernel_on<std::uint32_t>(op);
    case element_type::uint64: return kernel_on<std::uint64_t>(op);
    case element_type::float16: return kernel_on<float16>(op);
    case element_type::bfloat16: return kernel_on<bfloat16>(op);
    case element_type::float32: return kernel_on<float>(op);
    case element_type::float64: return kernel_on<double>(op);
    case element_type::long_double: return kernel_on<long double>(op);
    case element_type::complex64: return kernel_on<std::complex<float>>(op);
    case element_type::complex128: return kernel_on<std::complex<double>>(op);
    default: return {};
  }
}

}  // namespace detail::reduce

/// Returns the kernel of a named operator for elements of a named type. `combine` is null if there is none: bitwise and
/// logical operators on other types than integers, the order of complex numbers, an average of integers, any operator
/// on opaque elements.
/// Cost    two jumps; the first call in a program compiles about eighty loops into it (in compiled mode the library has
///         them).
template <std::same_as<reduction> Reduction>
kernel make_kernel(element_type type, Reduction op) {
  return detail::reduce::kernel_by_name(type, op);
}

/// A function over blocks, from which `kernel()` makes a kernel that refers to this object.
///
/// `f(in, inout, n)`: sets inout[i] = in[i] op inout[i] for n contiguous elements, like MPI_Reduce_local and LightGBM's
/// reducers; `const std::byte* in`, `std::byte* inout`, which do not overlap and need not be aligned. With two sources
/// f runs in place if the result replaces the right one, or if it replaces the left one and `commutes` is set, which
/// promises that f commutes. If the result replaces a source otherwise, f runs on copies of 16 KiB at a time.
template <class F>
class block_function {
 public:
  block_function(std::size_t element_bytes, F f, bool commutes = false)
      : f_{std::move(f)}, bytes_{element_bytes}, commutes_{commutes} {}

  std::size_t element_bytes() const { return bytes_; }
  bool commutes() const { return commutes_; }
  /// An element has `element_bytes` bytes in memory and on the wire. Errors: an exception of f fails the call and the
  /// communicator.
  kolo::kernel kernel() const {
    return {.element_bytes = bytes_,
            .wire_bytes = bytes_,
            .op = this,
            .combine = [](const void* self, std::byte* dst, const source* s, int n, std::size_t count,
                          int) { static_cast<const block_function*>(self)->combine(dst, s, n, count); },
            .commutes = commutes_};
  }

 private:
  /// Sets dst[i] = (s0[i] op s1[i]) op ...
  void combine(std::byte* dst, const source* s, int n, std::size_t count) const {
    if (count == 0) return;
    if (n == 1) return void(std::memmove(dst, s[0].data, count * bytes_));
    if (n == 2 && dst == s[1].data) return f_(s[0].data, dst, count);
    if (n == 2 && commutes_ && dst == s[0].data) return f_(s[1].data, dst, count);
    const bool in_place = std::any_of(s, s + n, [&](const source& one) { return one.data == dst; });
    const std::size_t some = std::max<std::size_t>(16 * 1024 / bytes_, 1);
    thread_local std::vector<std::byte> partial;  // results of `some` elements, which stay in the cache
    partial.resize(std::max(partial.size(), 2 * some * bytes_));
    for (std::size_t i = 0; i < count; i += some) {
      const auto now = std::min(some, count - i);
      const std::byte* left = s[0].data + i * bytes_;
      for (int k = 1; k < n; ++k) {
        const bool is_last = k + 1 == n && !in_place;
        auto* const right = is_last ? dst + i * bytes_ : partial.data() + (k % 2 == 0 ? some * bytes_ : 0);
        std::memcpy(right, s[k].data + i * bytes_, now * bytes_);
        f_(left, right, now);
        left = right;
      }
      if (in_place) std::memcpy(dst + i * bytes_, left, now * bytes_);
    }
  }

  F f_;
  std::size_t bytes_;
  bool commutes_;
};

/// by_kernel{kernel [, id]}           an operator that is defined by its kernel alone
/// by_kernel<false>{kernel [, id]}    one that does not commute: combines in the order of the ranks; a call rejects a
///                                    kernel whose `commutes` is set
///
/// The kernel, and the objects it refers to, must outlive the call.
/// `id` must be equal on all ranks. Ranks compare it, and nothing else, to detect different kernels.
template <bool Commutes = true>
class by_kernel {
 public:
  static constexpr bool commutative = Commutes;

  explicit by_kernel(const kolo::kernel& k, std::uint32_t id = 0) : kernel_{k}, id_{id} {}
  const kolo::kernel& kernel() const { return kernel_; }
  std::uint32_t id() const { return id_; }

 private:
  kolo::kernel kernel_;
  std::uint32_t id_;
};

namespace detail::reduce {
template <>
inline constexpr bool is_untyped_operator<reduction> = true;
template <bool Commutes>
inline constexpr bool is_untyped_operator<by_kernel<Commutes>> = true;
}  // namespace detail::reduce

}  // namespace kolo::inline KOLO_ABI

#ifdef KOLO_COMPILED
extern template kolo::kernel kolo::detail::reduce::kernel_by_name<kolo::reduction>(kolo::element_type, kolo::reduction);
#endif
