// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each rank can see for itself about the arguments of a call: an error of MPI's, or none. Nobody is asked.
#pragma once

#include "datatypes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace under_mpi {

/// The verdict that is no error class: all ranks leave the call to MPI, since they agree on what it follows from.
inline constexpr int left_to_mpi = -1;

/// Open MPI takes one buffer for both, as if MPI_IN_PLACE had been said, and programs live on it; MPICH calls that an error.
#if defined(OPEN_MPI)
inline constexpr bool one_buffer_is_in_place = true;
#else
inline constexpr bool one_buffer_is_in_place = false;
#endif

/// Elements that the caller owns, or MPI_IN_PLACE.
template <class N>
struct buffer {
  const void* data;
  N count;
  MPI_Datatype type;

  bool is_in_place() const { return data == MPI_IN_PLACE; }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(type); }

  /// MPI_SUCCESS, or the class of what is wrong with it. MPI_BOTTOM is null as well, but then the datatype says where things are.
  int fault() const {
    if (count < 0) return MPI_ERR_COUNT;
    if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
    if (is_in_place()) return MPI_ERR_BUFFER;
    return data || bytes() == 0 || !is_plain(type) ? MPI_SUCCESS : MPI_ERR_BUFFER;
  }
};

/// Do the two share a byte? Where elements have gaps, nobody asks.
template <class N, class M>
bool overlap(const buffer<N>& a, const buffer<M>& b) {
  const auto first = reinterpret_cast<std::uintptr_t>(a.data), second = reinterpret_cast<std::uintptr_t>(b.data);
  const auto first_bytes = a.bytes(), second_bytes = b.bytes();
  if (first_bytes == 0 || second_bytes == 0 || first >= second + second_bytes || second >= first + first_bytes)
    return false;
  return is_plain(a.type) && is_plain(b.type);
}

/// The first that is wrong.
inline int first_fault(std::initializer_list<int> faults) {
  const auto wrong = std::find_if(faults.begin(), faults.end(), [](int f) { return f != MPI_SUCCESS; });
  return wrong == faults.end() ? MPI_SUCCESS : *wrong;
}

/// What a rank gives and what it gets. `own`: where its part lies in what it gets, which is the one place where both may be the same.
template <class N, class M>
int fault_of(const buffer<N>& in, const buffer<M>& out, const void* own) {
  if (const int wrong = out.fault(); wrong != MPI_SUCCESS || in.is_in_place()) return wrong;
  if (const int wrong = in.fault(); wrong != MPI_SUCCESS || !overlap(in, out)) return wrong;
  return one_buffer_is_in_place && in.data == own ? MPI_SUCCESS : MPI_ERR_BUFFER;
}

/// Those are different lengths of one thing.
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
