// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI on one rank: the blocking collectives, unmodified, of the MPI whose compiler wrapper builds this.
#pragma once

#include "worker.hpp"

#include <mpi.h>

namespace kolo_bench {

inline void merge_tallies(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const tally*>(in);
  auto* b = static_cast<tally*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = merge{}(a[i], b[i]);
}

inline float widened(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}
/// To nearest, ties to even; without a branch, so that the compiler can vectorise the loop.
inline std::uint16_t narrowed(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
inline void add_bfloat16(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::uint16_t*>(in);
  auto* b = static_cast<std::uint16_t*>(in_out);
  for (int i = 0; i < *count; ++i) b[i] = narrowed(widened(a[i]) + widened(b[i]));
}

/// An element type and its operator.
struct arithmetic {
  MPI_Datatype type = MPI_FLOAT;
  MPI_Op op = MPI_SUM;

  static arithmetic of_bytes(int bytes, MPI_User_function* function) {
    arithmetic made;
    MPI_Type_contiguous(bytes, MPI_BYTE, &made.type);
    MPI_Type_commit(&made.type);
    MPI_Op_create(function, 1, &made.op);
    return made;
  }
};

class mpi_backend : public backend {
 public:
  mpi_backend() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    tally_ = arithmetic::of_bytes(sizeof(tally), merge_tallies);
    bfloat16_ = arithmetic::of_bytes(2, add_bfloat16);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string line{text, static_cast<std::size_t>(length)};
    line = line.substr(0, line.find_first_of("\n,"));
    for (auto& c : line)
      if (c == '\t') c = ' ';
    return line;
  }
  std::string offers() const override {
    return "allreduce/default\nbroadcast/default\nallgather/default\nreduce_scatter/default\nreduce/default\ngather/"
           "default\n"
           "scatter/default\nalltoall/default\nscan/default\nexclusive_scan/default\nshift/default\nexchange/"
           "default\nbarrier/default\n";
  }

  call prepare(const command& c, std::size_t count) override {
    const int n = static_cast<int>(count), p = size_;
    const bool in_place = c.place == "in_place";
    const auto a = c.element == "tally" ? tally_ : c.element == "bfloat16" ? bfloat16_ : arithmetic{};
    const auto world = MPI_COMM_WORLD;
    const auto from = [in_place](const std::byte* in) {
      return in_place ? MPI_IN_PLACE : static_cast<const void*>(in);
    };
    const auto from_root = [in_place, root = rank_ == 0](const std::byte* in) {
      return in_place && root ? MPI_IN_PLACE : static_cast<const void*>(in);
    };
    if (c.collective == "barrier") return [=](const std::byte*, std::byte*) { MPI_Barrier(world); };
    if (c.collective == "broadcast") return [=](const std::byte*, std::byte* x) { MPI_Bcast(x, n, a.type, 0, world); };
    if (c.collective == "allreduce")
      return [=](const std::byte* in, std::byte* out) { MPI_Allreduce(from(in), out, n, a.type, a.op, world); };
    if (c.collective == "reduce")
      return [=](const std::byte* in, std::byte* out) { MPI_Reduce(from_root(in), out, n, a.type, a.op, 0, world); };
    if (c.collective == "allgather")
      return [=](const std::byte* in, std::byte* out) { MPI_Allgather(from(in), n, a.type, out, n, a.type, world); };
    if (in_place) return {};
    if (c.collective == "reduce_scatter")
      return
          [=](const std::byte* in, std::byte* out) { MPI_Reduce_scatter_block(in, out, n / p, a.type, a.op, world); };
    if (c.collective == "scan")
      return [=](const std::byte* in, std::byte* out) { MPI_Scan(in, out, n, a.type, a.op, world); };
    if (c.collective == "exclusive_scan")
      return [=](const std::byte* in, std::byte* out) { MPI_Exscan(in, out, n, a.type, a.op, world); };
    if (c.collective == "gather")
      return [=](const std::byte* in, std::byte* out) { MPI_Gather(in, n, a.type, out, n, a.type, 0, world); };
    if (c.collective == "scatter")
      return [=](const std::byte* in, std::byte* out) { MPI_Scatter(in, n, a.type, out, n, a.type, 0, world); };
    if (c.collective == "shift")
      return [=, next = (rank_ + 1) % p, last = (rank_ + p - 1) % p](const std::byte* in, std::byte* out) {
        MPI_Sendrecv(in, n, a.type, next, 0, out, n, a.type, last, 0, world, MPI_STATUS_IGNORE);
      };
    if (c.collective == "exchange")
      return [=, partner = p - 1 - rank_](const std::byte* in, std::byte* out) {
        MPI_Sendrecv(in, n, a.type, partner, 0, out, n, a.type, partner, 0, world, MPI_STATUS_IGNORE);
      };
    if (c.collective == "alltoall")
      return [=](const std::byte* in, std::byte* out) { MPI_Alltoall(in, n / p, a.type, out, n / p, a.type, world); };
    return {};
  }

 private:
  int rank_ = 0, size_ = 1;
  arithmetic tally_{}, bfloat16_{};
};

}  // namespace kolo_bench
