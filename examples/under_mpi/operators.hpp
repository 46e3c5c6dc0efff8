// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI's operators as kernels: kolo's loops for common element types, MPI_Reduce_local on whole blocks for everything else.
#pragma once

#include "datatypes.hpp"

#include <kolo/kolo.hpp>
#include <kolo/mpi/mpi.hpp>
#include <kolo/untyped.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace under_mpi {

/// An MPI operator on elements of one datatype. Must outlive its kernel.
class operation {
 public:
  /// Nothing if MPI does not define the operator on this type, if elements have gaps, or if one may not fit into a slot. (Also before the communicator
  /// uses shared memory: the decision must be the same for all calls.)
  static std::optional<operation> of(MPI_Op op, MPI_Datatype type) {
    if (op == MPI_OP_NULL || type == MPI_DATATYPE_NULL || op == MPI_REPLACE || op == MPI_NO_OP) return std::nullopt;
    kolo::kernel own{};
    int commutes = 1;
    const auto known = numbers().find(type);
    if (const auto rule = rule_of(op); rule != user) {
      if (known == numbers().end() || (known->second.what & rule) == 0) return std::nullopt;
      own = kernel_of(op, known->second.type);
    } else {
      if (known == numbers().end() && !is_gapless(type)) return std::nullopt;
      MPI_Op_commutative(op, &commutes);
    }
    const auto bytes = extent_of(type);
    constexpr int shortest_slot = 4096;  // bytes, with 64 ranks or more
    const bool fits = bytes > 0 && bytes <= shortest_slot;
    return fits ? std::optional{operation{own, {op, type, bytes}, commutes != 0}} : std::nullopt;
  }

  bool commutes() const { return by_mpi_.commutes(); }
  /// A number for each predefined operator, the same on all ranks; 0: a user-defined one.
  std::uint32_t code() const {
    const auto all = own_operators();
    const auto own = std::find(all.begin(), all.end(), op_);
    return own == all.end() ? 0 : static_cast<std::uint32_t>(own - all.begin() + 1);
  }
  std::size_t element_bytes() const { return by_mpi_.element_bytes(); }
  /// Refers to this object.
  kolo::kernel kernel() const { return kernel_.combine ? kernel_ : by_mpi_.kernel(); }

 private:
  enum rules : unsigned { user = 0, arithmetic = 1, ordering = 2, logical = 4, bitwise = 8, located = 16 };
  struct number {
    unsigned what;
    kolo::element_type type;  ///< opaque: kolo has no loop for it
  };

  /// inout[i] = in[i] op inout[i], by MPI_Reduce_local.
  struct reduce_local {
    MPI_Op op;
    MPI_Datatype type;
    std::size_t bytes;

    void operator()(const std::byte* in, std::byte* inout, std::size_t count) const {
      constexpr std::size_t most = 1 << 30;
      for (std::size_t i = 0; i < count; i += most) {
        const auto now = static_cast<int>(std::min(most, count - i));
        check(PMPI_Reduce_local(in + i * bytes, inout + i * bytes, now, type, op), "MPI_Reduce_local");
      }
    }
  };

  operation(const kolo::kernel& own, const reduce_local& by_mpi, bool commutes)
      : op_{by_mpi.op}, kernel_{own}, by_mpi_{by_mpi.bytes, by_mpi, commutes} {}

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

  /// kolo's kernel for sum, product, min and max; otherwise an empty one.
  static kolo::kernel kernel_of(MPI_Op op, kolo::element_type type) {
    if (op == MPI_SUM) return kolo::make_kernel(type, kolo::reduction::sum);
    if (op == MPI_PROD) return kolo::make_kernel(type, kolo::reduction::product);
    if (op == MPI_MIN) return kolo::make_kernel(type, kolo::reduction::min);
    if (op == MPI_MAX) return kolo::make_kernel(type, kolo::reduction::max);
    return {};
  }

  /// The predefined datatypes for which predefined operators are defined (MPI 3.1, 5.9.2 and 5.9.4).
  static const std::unordered_map<MPI_Datatype, number>& numbers() {
    static const auto all = [] {
      constexpr unsigned integer = arithmetic | ordering | bitwise, c_integer = integer | logical,
                         real = arithmetic | ordering;
      std::unordered_map<MPI_Datatype, number> m;
      const auto put = [&m](unsigned what, std::initializer_list<MPI_Datatype> types,
                            kolo::element_type kolos = kolo::element_type::opaque) {
        for (const auto t : types)
          if (t != MPI_DATATYPE_NULL) m.emplace(t, number{what, kolos});  // some types are null without Fortran
      };
      put(c_integer, {MPI_INT, MPI_INT32_T}, kolo::element_type::int32);
      put(c_integer, {MPI_UNSIGNED, MPI_UINT32_T}, kolo::element_type::uint32);
      put(c_integer, {MPI_LONG, MPI_LONG_LONG, MPI_INT64_T}, kolo::element_type::int64);
      put(c_integer, {MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT64_T}, kolo::element_type::uint64);
      put(c_integer, {MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT8_T, MPI_UINT8_T,
                      MPI_INT16_T, MPI_UINT16_T});
      put(integer,
          {MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8});
      put(real, {MPI_FLOAT}, kolo::element_type::float32);
      put(real, {MPI_DOUBLE}, kolo::element_type::float64);
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

  MPI_Op op_;
  kolo::kernel kernel_;  ///< kolo's; empty: use by_mpi_
  kolo::block_function<reduce_local> by_mpi_;
};

}  // namespace under_mpi
