// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function that libkolo_mpi.so replaces, compared with the expected result, which each rank computes without communication.
#pragma once

#include <mpi.h>

#include <complex>
#include <cstddef>
#include <cstdio>
#include <vector>

/// On failure ends the program on all ranks, so that the line of MPI_Finalize is missing.
inline void expect(bool condition, const char* what, MPI_Datatype type = MPI_DATATYPE_NULL, int n = -1) {
  if (condition) return;
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0, rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (type != MPI_DATATYPE_NULL) PMPI_Type_get_name(type, name, &length);
  std::printf("FAILED on rank %d: %s %s, %d elements\n", rank, what, name, n);
  std::fflush(stdout);
  PMPI_Abort(MPI_COMM_WORLD, 1);
}

inline int rank_in(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}
inline int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

/// An element of MPI_2INT, MPI_DOUBLE_INT and so on.
template <class T>
struct located {
  T value;
  int place;
  bool operator==(const located&) const = default;
};

/// Small whole numbers: all operations, in any order, give the same bits.
template <class T>
struct maker {
  static T make(int rank, int i) { return static_cast<T>((rank * 7 + i * 3) % 4); }
};
template <class T>
struct maker<std::complex<T>> {
  static std::complex<T> make(int rank, int i) { return {maker<T>::make(rank, i), maker<T>::make(rank, i + 1)}; }
};
template <class T>
struct maker<located<T>> {
  static located<T> make(int rank, int i) { return {maker<T>::make(rank, i), (rank * 5 + i) % 7}; }
};
template <class T>
std::vector<T> elements(int rank, int n) {
  std::vector<T> v(static_cast<std::size_t>(n) + 1);  // one more, which must not be written
  for (int i = 0; i <= n; ++i) v[static_cast<std::size_t>(i)] = maker<T>::make(rank, i);
  return v;
}

/// The elements of ranks 0 to `last`, reduced in order by this rank alone.
template <class T>
std::vector<T> folded(MPI_Datatype type, MPI_Op op, int last, int n) {
  auto all = elements<T>(0, n);
  for (int r = 1; r <= last; ++r) {
    auto next = elements<T>(r, n);
    PMPI_Reduce_local(all.data(), next.data(), n, type, op);
    all.swap(next);
  }
  return all;
}

/// All reducing functions, with n elements per rank, out of place and in place. Elements outside the result must not change.
template <class T>
class reduction {
 public:
  reduction(MPI_Comm comm, MPI_Datatype type, MPI_Op op, int n)
      : comm_{comm},
        type_{type},
        op_{op},
        n_{n},
        rank_{rank_in(comm)},
        size_{size_of(comm)},
        in_{elements<T>(rank_, n * size_)},
        out_{elements<T>(99, n * size_)},
        total_{folded<T>(type, op, size_ - 1, n * size_)},
        so_far_{folded<T>(type, op, rank_, n * size_)} {}

  void run() {
    both("Allreduce", 0, n_, total_,
         [&](const void* from, void* to) { MPI_Allreduce(from, to, n_, type_, op_, comm_); });
    both("Scan", 0, n_, so_far_, [&](const void* from, void* to) { MPI_Scan(from, to, n_, type_, op_, comm_); });
    for (const int root : {0, size_ - 1})
      both("Reduce", 0, rank_ == root ? n_ : 0, total_, [&](const void* from, void* to) {
        MPI_Reduce(rank_ == root ? from : in_.data(), rank_ == root ? to : nullptr, n_, type_, op_, root, comm_);
      });
    both("Reduce_scatter_block", rank_ * n_, n_, total_,
         [&](const void* from, void* to) { MPI_Reduce_scatter_block(from, to, n_, type_, op_, comm_); });
    std::vector<int> counts(static_cast<std::size_t>(size_), n_ / 2);
    counts[0] = n_ * size_ - (size_ - 1) * (n_ / 2);
    both("Reduce_scatter", rank_ == 0 ? 0 : counts[0] + (rank_ - 1) * (n_ / 2), counts[static_cast<std::size_t>(rank_)],
         total_, [&](const void* from, void* to) { MPI_Reduce_scatter(from, to, counts.data(), type_, op_, comm_); });
  }

 private:
  /// `work` must write elements [first, first + count) of `wanted`, from `in` and in place; in place the elements after them are undefined.
  template <class F>
  void both(const char* what, int first, int count, const std::vector<T>& wanted, F work) {
    auto got = out_;
    work(in_.data(), got.data());
    for (int i = 0; i <= n_ * size_; ++i)
      expect(got[static_cast<std::size_t>(i)] ==
                 (i < count ? wanted[static_cast<std::size_t>(first + i)] : out_[static_cast<std::size_t>(i)]),
             what, type_, n_);
    got = in_;
    work(MPI_IN_PLACE, got.data());
    for (int i = 0; i < count; ++i)
      expect(got[static_cast<std::size_t>(i)] == wanted[static_cast<std::size_t>(first + i)], what, type_, n_);
  }

  MPI_Comm comm_;
  MPI_Datatype type_;
  MPI_Op op_;
  int n_, rank_, size_;
  std::vector<T> in_, out_, total_, so_far_;
};
template <class T>
void reductions(MPI_Comm comm, MPI_Datatype type, MPI_Op op, int n) {
  reduction<T>{comm, type, op, n}.run();
}

/// All functions that move: n elements of `type` are received from n elements of `from`, which has the same signature.
class movement {
 public:
  movement(MPI_Comm comm, MPI_Datatype from, MPI_Datatype type, int n)
      : comm_{comm},
        from_{from},
        type_{type},
        n_{n},
        rank_{rank_in(comm)},
        size_{size_of(comm)},
        room_{64 + 128 * static_cast<std::size_t>((n + 2) * (size_ + 1))} {}

  void run() {
    in_ = memory_of(rank_, 7);
    for (const int root : {0, size_ - 1}) {
      begin();
      MPI_Bcast(at(got_), n_, rank_ == root ? from_ : type_, root, comm_);
      if (rank_ != root) move(memory_of(root, 5), 0, from_, n_, 0);
      end("Bcast");
    }
    std::vector<int> counts(static_cast<std::size_t>(size_), n_), places;
    for (int r = 0; r < size_; ++r) places.push_back(r * n_);
    gather("Allgather", counts, places, [&](const void* in, int n, MPI_Datatype from, void* to) {
      MPI_Allgather(in, n, from, to, n_, type_, comm_);
    });
    const auto ragged = [&](const void* in, int n, MPI_Datatype from, void* to) {
      MPI_Allgatherv(in, n, from, to, counts.data(), places.data(), type_, comm_);
    };
    gather("Allgatherv", counts, places, ragged);
    for (int r = 0; r < size_; ++r) {
      counts[static_cast<std::size_t>(r)] = r % 2 == 0 ? n_ : n_ / 2;
      places[static_cast<std::size_t>(r)] = (size_ - 1 - r) * (n_ + 1);
    }
    gather("Allgatherv, with gaps, backwards", counts, places, ragged);
    begin();
    MPI_Alltoall(at(in_), n_, from_, at(got_), n_, type_, comm_);
    for (int r = 0; r < size_; ++r) move(memory_of(r, 7), rank_ * n_, from_, n_, r * n_);
    end("Alltoall");
    begin();
    MPI_Alltoall(MPI_IN_PLACE, 0, from_, at(got_), n_, type_, comm_);
    for (int r = 0; r < size_; ++r) move(memory_of(r, 5), rank_ * n_, type_, n_, r * n_);
    end("Alltoall in place");
  }

 private:
  using bytes = std::vector<unsigned char>;

  bytes memory_of(int rank, std::size_t factor) const {
    bytes b(room_);
    const auto r = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i < room_; ++i) b[i] = static_cast<unsigned char>(i * factor + r * 31 + i / 256);
    return b;
  }
  static unsigned char* at(bytes& b) { return b.data() + 64; }  // some bytes are before the address
  static MPI_Aint extent_of(MPI_Datatype type) {
    MPI_Aint lower = 0, extent = 0;
    PMPI_Type_get_extent(type, &lower, &extent);
    return extent;
  }

  void begin() { got_ = wanted_ = memory_of(rank_, 5); }
  void end(const char* what) { expect(got_ == wanted_, what, type_, n_); }  // also compares gaps between elements

  /// Copies elements [first, first + n) of a rank's memory to `wanted_`, from element `place` on.
  void move(bytes theirs, int first, MPI_Datatype from, int n, int place) {
    bytes packed(room_);
    int end = 0, begin = 0;
    PMPI_Pack(at(theirs) + first * extent_of(from), n, from, packed.data(), static_cast<int>(room_), &end,
              MPI_COMM_SELF);
    PMPI_Unpack(packed.data(), end, &begin, at(wanted_) + place * extent_of(type_), n, type_, MPI_COMM_SELF);
  }

  template <class F>
  void gather(const char* what, const std::vector<int>& counts, const std::vector<int>& places, F work) {
    begin();
    work(at(in_), counts[static_cast<std::size_t>(rank_)], from_, at(got_));
    for (std::size_t r = 0; r < counts.size(); ++r)
      move(memory_of(static_cast<int>(r), 7), 0, from_, counts[r], places[r]);
    end(what);
    begin();
    work(MPI_IN_PLACE, 0, from_, at(got_));
    for (std::size_t r = 0; r < counts.size(); ++r)
      move(memory_of(static_cast<int>(r), 5), places[r], type_, counts[r], places[r]);
    end(what);
  }

  MPI_Comm comm_;
  MPI_Datatype from_, type_;
  int n_, rank_, size_;
  std::size_t room_;
  bytes in_, got_, wanted_;
};
inline void movements(MPI_Comm comm, MPI_Datatype from, MPI_Datatype type, int n) {
  movement{comm, from, type, n}.run();
}
