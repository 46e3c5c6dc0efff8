// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI's operators as kolo's kernels: kolo's own loops for the usual numbers, and MPI_Reduce_local, over whole blocks, for everything else.
#pragma once

#include "datatypes.hpp"

#include <kolo/kolo.hpp>
#include <kolo/mpi/mpi.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace under_mpi {

/// An operator of MPI's on elements of one datatype. The kernel refers to it.
class operation {
 public:
  /// Nothing, where MPI does not define the operator on this type, or elements do not lie side by side.
  static std::optional<operation> of(MPI_Op op, MPI_Datatype type) {
    if (op == MPI_OP_NULL || type == MPI_DATATYPE_NULL || op == MPI_REPLACE || op == MPI_NO_OP) return std::nullopt;
    operation o{op, type};
    const auto known = numbers().find(type);
    if (const auto rule = rule_of(op); rule != user) {
      if (known == numbers().end() || (known->second.what & rule) == 0) return std::nullopt;
      if (known->second.kernel) o.kernel_ = known->second.kernel(op);
    } else {
      if (known == numbers().end() && !is_plain(type)) return std::nullopt;
      int flag = 0;
      MPI_Op_commutative(op, &flag);
      o.commutes_ = flag != 0;
    }
    o.bytes_ = extent_of(type);
    return o.bytes_ > 0 ? std::optional{o} : std::nullopt;
  }

  bool commutes() const { return commutes_; }
  /// Which one of MPI's own it is, the same on all ranks; 0: the user's, of which MPI does not say more.
  std::uint32_t code() const {
    const auto all = own_operators();
    const auto own = std::find(all.begin(), all.end(), op_);
    return own == all.end() ? 0 : static_cast<std::uint32_t>(own - all.begin() + 1);
  }
  std::size_t element_bytes() const { return bytes_; }
  kolo::kernel kernel() const {
    if (kernel_.combine) return kernel_;
    return {.element_bytes = bytes_,
            .wire_bytes = bytes_,
            .op = this,
            .combine = [](const void* op, std::byte* dst, const kolo::source* s, int n, std::size_t count, int) {
              static_cast<const operation*>(op)->fold(dst, s, n, count);
            }};
  }

 private:
  enum rules : unsigned { user = 0, arithmetic = 1, ordering = 2, logical = 4, bitwise = 8, located = 16 };
  struct number {
    unsigned what;
    kolo::kernel (*kernel)(MPI_Op);
  };

  operation(MPI_Op op, MPI_Datatype type) : op_{op}, type_{type} {}

  static rules rule_of(MPI_Op op) {
    if (op == MPI_SUM || op == MPI_PROD) return arithmetic;
    if (op == MPI_MIN || op == MPI_MAX) return ordering;
    if (op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR) return logical;
    if (op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR) return bitwise;
    return op == MPI_MINLOC || op == MPI_MAXLOC ? located : user;
  }

  static std::span<const MPI_Op> own_operators() {
    static const MPI_Op all[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                                 MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    return all;
  }

  template <class T>
  static kolo::kernel kernel_of(MPI_Op op) {
    if (op == MPI_SUM) return kolo::make_kernel<T>(kolo::sum);
    if (op == MPI_PROD) return kolo::make_kernel<T>(kolo::product);
    if (op == MPI_MIN) return kolo::make_kernel<T>(kolo::min);
    if (op == MPI_MAX) return kolo::make_kernel<T>(kolo::max);
    return {};
  }

  /// The predefined datatypes that some predefined operator takes (MPI 3.1, 5.9.2 and 5.9.4).
  static const std::unordered_map<MPI_Datatype, number>& numbers() {
    static const auto all = [] {
      constexpr unsigned integer = arithmetic | ordering | bitwise, c_integer = integer | logical,
                         real = arithmetic | ordering;
      std::unordered_map<MPI_Datatype, number> m;
      const auto put = [&m](unsigned what, std::initializer_list<MPI_Datatype> types,
                            kolo::kernel (*kernel)(MPI_Op) = nullptr) {
        for (const auto t : types)
          if (t != MPI_DATATYPE_NULL) m.emplace(t, number{what, kernel});  // some are missing where there is no Fortran
      };
      put(c_integer, {MPI_INT, MPI_INT32_T}, kernel_of<std::int32_t>);
      put(c_integer, {MPI_UNSIGNED, MPI_UINT32_T}, kernel_of<std::uint32_t>);
      put(c_integer, {MPI_LONG, MPI_LONG_LONG, MPI_INT64_T}, kernel_of<std::int64_t>);
      put(c_integer, {MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT64_T}, kernel_of<std::uint64_t>);
      put(c_integer, {MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT8_T, MPI_UINT8_T,
                      MPI_INT16_T, MPI_UINT16_T});
      put(integer,
          {MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8});
      put(real, {MPI_FLOAT}, kernel_of<float>);
      put(real, {MPI_DOUBLE}, kernel_of<double>);
      put(real, {MPI_LONG_DOUBLE, MPI_REAL, MPI_REAL4, MPI_REAL8, MPI_DOUBLE_PRECISION});
      put(arithmetic, {MPI_C_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX,
                       MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_DOUBLE_COMPLEX});
      put(logical, {MPI_C_BOOL, MPI_CXX_BOOL, MPI_LOGICAL});
      put(bitwise, {MPI_BYTE});
      put(located, {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
                    MPI_2INTEGER, MPI_2REAL, MPI_2DOUBLE_PRECISION});
      return m;
    }();
    return all;
  }

  /// dst[i] = (s0[i] op s1[i]) op ...; MPI has inout[i] = in[i] op inout[i].
  void fold(std::byte* dst, const kolo::source* s, int n, std::size_t count) const {
    if (n == 1) return void(std::memmove(dst, s[0].data, count * bytes_));
    if (n == 2 && dst == s[1].data) return apply(s[0].data, dst, count);
    if (n == 2 && commutes_ && dst == s[0].data) return apply(s[1].data, dst, count);
    const std::size_t some = std::max<std::size_t>(16 * 1024 / bytes_, 1);
    thread_local std::vector<std::byte> partial;  // results of some elements, which stay in the cache
    partial.resize(std::max(partial.size(), 2 * some * bytes_));
    for (std::size_t i = 0; i < count; i += some) {
      const auto now = std::min(some, count - i);
      const std::byte* left = s[0].data + i * bytes_;
      for (int k = 1; k < n; ++k) {
        auto* const right = partial.data() + (k % 2 == 0 ? some * bytes_ : 0);
        std::memcpy(right, s[k].data + i * bytes_, now * bytes_);
        apply(left, right, now);
        left = right;
      }
      std::memcpy(dst + i * bytes_, left, now * bytes_);
    }
  }
  void apply(const std::byte* in, std::byte* inout, std::size_t count) const {
    constexpr std::size_t most = 1 << 30;
    for (std::size_t i = 0; i < count; i += most) {
      const auto now = static_cast<int>(std::min(most, count - i));
      kolo::mpi::detail::check(PMPI_Reduce_local(in + i * bytes_, inout + i * bytes_, now, type_, op_),
                               "MPI_Reduce_local");
    }
  }

  MPI_Op op_;
  MPI_Datatype type_;
  bool commutes_ = true;
  std::size_t bytes_ = 0;
  kolo::kernel kernel_{};  ///< of kolo's own; empty: MPI_Reduce_local
};

}  // namespace under_mpi
