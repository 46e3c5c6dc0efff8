// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of a call's arguments that a rank can make alone, without communication; results are MPI error classes.
#pragma once

#include "datatypes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace under_mpi {

/// A result that is no error class: MPI runs the call. It follows from arguments that are equal on all ranks.
inline constexpr int left_to_mpi = -1;

/// Open MPI accepts the same buffer for input and output, like MPI_IN_PLACE, and programs depend on it; MPICH reports an error.
#if defined(OPEN_MPI)
inline constexpr bool one_buffer_is_in_place = true;
#else
inline constexpr bool one_buffer_is_in_place = false;
#endif

/// A buffer of the caller's, or MPI_IN_PLACE.
template <class N>
struct buffer {
  const void* data;
  N count;
  MPI_Datatype type;

  bool is_in_place() const { return data == MPI_IN_PLACE; }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(type); }

  /// MPI_SUCCESS or an error class. Null may be MPI_BOTTOM, with addresses in the datatype.
  int fault() const {
    if (count < 0) return MPI_ERR_COUNT;
    if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
    if (is_in_place()) return MPI_ERR_BUFFER;
    return data || bytes() == 0 || !is_plain(type) ? MPI_SUCCESS : MPI_ERR_BUFFER;
  }
};

/// Whether the two share a byte; false if the elements of one have gaps.
template <class N, class M>
bool overlap(const buffer<N>& a, const buffer<M>& b) {
  const auto first = reinterpret_cast<std::uintptr_t>(a.data), second = reinterpret_cast<std::uintptr_t>(b.data);
  const auto first_bytes = a.bytes(), second_bytes = b.bytes();
  if (first_bytes == 0 || second_bytes == 0 || first >= second + second_bytes || second >= first + first_bytes)
    return false;
  return is_plain(a.type) && is_plain(b.type);
}

/// The first error, or MPI_SUCCESS.
inline int first_fault(std::initializer_list<int> faults) {
  const auto wrong = std::find_if(faults.begin(), faults.end(), [](int f) { return f != MPI_SUCCESS; });
  return wrong == faults.end() ? MPI_SUCCESS : *wrong;
}

/// Checks input and output. `own`: the address of this rank's part of the output, which alone may also be the input.
template <class N, class M>
int fault_of(const buffer<N>& in, const buffer<M>& out, const void* own) {
  if (const int wrong = out.fault(); wrong != MPI_SUCCESS || in.is_in_place()) return wrong;
  if (const int wrong = in.fault(); wrong != MPI_SUCCESS || !overlap(in, out)) return wrong;
  return one_buffer_is_in_place && in.data == own ? MPI_SUCCESS : MPI_ERR_BUFFER;
}

/// Lengths in bytes that must be equal.
inline int fault_of_lengths(std::size_t given, std::size_t wanted) {
  return given == wanted ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

template <class N>
int fault_of(std::span<const N> counts) {
  if (!counts.data()) return MPI_ERR_ARG;
  return std::all_of(counts.begin(), counts.end(), [](N n) { return n >= 0; }) ? MPI_SUCCESS : MPI_ERR_COUNT;
}
inline int fault_of_root(int root, int size) { return root >= 0 && root < size ? MPI_SUCCESS : MPI_ERR_ROOT; }

}  // namespace under_mpi
