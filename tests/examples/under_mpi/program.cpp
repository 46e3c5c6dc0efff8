// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that a program may call under libkolo_mpi.so, with all types and operators; and calls that it leaves to MPI. It does not use kolo.
#include "program.hpp"

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <thread>

/// A bool for std::vector, whose specialisation packs plain bools.
struct logical_value {
  bool is;
  bool operator==(const logical_value&) const = default;
};

/// A 2 x 2 matrix.
struct four {
  std::uint32_t m[4];
  bool operator==(const four&) const = default;
};

template <>
struct maker<logical_value> {
  static logical_value make(int rank, int i) { return {(rank * 7 + i * 3) % 4 > 1}; }
};
template <>
struct maker<four> {
  static four make(int rank, int i) {
    const auto r = static_cast<std::uint32_t>(rank), k = static_cast<std::uint32_t>(i);
    return {{r + 1, k + 2, r * k + 3, 5}};
  }
};

namespace {

const std::initializer_list<MPI_Op> arithmetic{MPI_SUM, MPI_PROD}, ordering{MPI_MIN, MPI_MAX},
    logical{MPI_LAND, MPI_LOR, MPI_LXOR}, bitwise{MPI_BAND, MPI_BOR, MPI_BXOR}, places{MPI_MINLOC, MPI_MAXLOC};

template <class T>
void over(std::initializer_list<MPI_Datatype> types, std::initializer_list<std::initializer_list<MPI_Op>> operators) {
  for (const auto type : types)
    for (const auto& some : operators)
      for (const auto op : some) reductions<T>(MPI_COMM_WORLD, type, op, 5);
}

void predefined() {
  over<int>({MPI_INT, MPI_INT32_T}, {arithmetic, ordering, logical, bitwise});
  over<unsigned>({MPI_UNSIGNED, MPI_UINT32_T}, {arithmetic, ordering, logical, bitwise});
  over<std::int64_t>({MPI_LONG, MPI_LONG_LONG, MPI_INT64_T}, {arithmetic, ordering, logical, bitwise});
  over<std::uint64_t>({MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT64_T},
                      {arithmetic, ordering, logical, bitwise});
  over<signed char>({MPI_SIGNED_CHAR, MPI_INT8_T}, {arithmetic, ordering, logical, bitwise});
  over<unsigned char>({MPI_UNSIGNED_CHAR, MPI_UINT8_T}, {arithmetic, ordering, logical, bitwise});
  over<short>({MPI_SHORT, MPI_INT16_T}, {arithmetic, ordering, logical, bitwise});
  over<unsigned short>({MPI_UNSIGNED_SHORT, MPI_UINT16_T}, {arithmetic, ordering, logical, bitwise});
  over<std::int64_t>({MPI_AINT, MPI_OFFSET, MPI_COUNT}, {arithmetic, ordering, bitwise});
  over<float>({MPI_FLOAT}, {arithmetic, ordering});
  over<double>({MPI_DOUBLE}, {arithmetic, ordering});
  over<long double>({MPI_LONG_DOUBLE}, {arithmetic, ordering});
  over<std::complex<float>>({MPI_C_COMPLEX, MPI_CXX_FLOAT_COMPLEX}, {arithmetic});
  over<std::complex<double>>({MPI_C_DOUBLE_COMPLEX, MPI_CXX_DOUBLE_COMPLEX}, {arithmetic});
  over<std::complex<long double>>({MPI_C_LONG_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX}, {arithmetic});
  over<logical_value>({MPI_C_BOOL}, {logical});
  over<unsigned char>({MPI_BYTE}, {bitwise});
  over<located<float>>({MPI_FLOAT_INT}, {places});
  over<located<double>>({MPI_DOUBLE_INT}, {places});
  over<located<long>>({MPI_LONG_INT}, {places});
  over<located<int>>({MPI_2INT}, {places});
  over<located<short>>({MPI_SHORT_INT}, {places});
  over<located<long double>>({MPI_LONG_DOUBLE_INT}, {places});
  if (MPI_INTEGER != MPI_DATATYPE_NULL) over<int>({MPI_INTEGER}, {arithmetic, ordering, bitwise});
  if (MPI_DOUBLE_PRECISION != MPI_DATATYPE_NULL) over<double>({MPI_DOUBLE_PRECISION}, {arithmetic, ordering});
  for (const int n : {0, 300, 40'000})
    reductions<double>(MPI_COMM_WORLD, MPI_DOUBLE, MPI_SUM, n),
        reductions<short>(MPI_COMM_WORLD, MPI_SHORT, MPI_BOR, n);
}

void multiply(void* in, void* inout, int* n, MPI_Datatype*) {
  const auto* a = static_cast<const four*>(in);
  auto* b = static_cast<four*>(inout);
  for (int i = 0; i < *n; ++i)
    b[i] = {{a[i].m[0] * b[i].m[0] + a[i].m[1] * b[i].m[2], a[i].m[0] * b[i].m[1] + a[i].m[1] * b[i].m[3],
             a[i].m[2] * b[i].m[0] + a[i].m[3] * b[i].m[2], a[i].m[2] * b[i].m[1] + a[i].m[3] * b[i].m[3]}};
}
constexpr int long_element = 20'000;  // more numbers than a slot of shared memory can hold
void add_long(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n * long_element; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}
void add(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n * 4; ++i) static_cast<std::uint32_t*>(inout)[i] += static_cast<const std::uint32_t*>(in)[i];
}

void of_the_user() {
  MPI_Op product, sum;
  MPI_Datatype whole, with_gap;
  MPI_Op_create(multiply, 0, &product), MPI_Op_create(add, 1, &sum);
  MPI_Type_contiguous(4, MPI_UINT32_T, &whole), MPI_Type_commit(&whole);
  MPI_Type_create_resized(MPI_INT, 0, 12, &with_gap), MPI_Type_commit(&with_gap);
  for (const int n : {1, 37, 3000})
    reductions<four>(MPI_COMM_WORLD, whole, product, n), reductions<four>(MPI_COMM_WORLD, whole, sum, n);
  int sparse[30] = {}, result[30] = {};
  const auto nothing = [](void*, void*, int*, MPI_Datatype*) {};
  MPI_Op none;
  MPI_Op_create(nothing, 1, &none);
  MPI_Allreduce(sparse, result, 10, with_gap, none, MPI_COMM_WORLD);  // by MPI: a datatype with gaps
  MPI_Datatype in_parts;                                              // equal to `whole`, but made in another way
  const int lengths[] = {3, 1}, displacements[] = {0, 3};
  MPI_Type_indexed(2, lengths, displacements, MPI_UINT32_T, &in_parts), MPI_Type_commit(&in_parts);
  const four mine = maker<four>::make(rank_in(MPI_COMM_WORLD), 1);
  four total{};
  MPI_Allreduce(&mine, &total, 1, rank_in(MPI_COMM_WORLD) == 0 ? whole : in_parts, sum, MPI_COMM_WORLD);
  expect(total == folded<four>(whole, sum, size_of(MPI_COMM_WORLD) - 1, 2)[1],
         "Allreduce with one type made in two ways");
  MPI_Op long_sum;
  MPI_Datatype large;
  MPI_Op_create(add_long, 1, &long_sum);
  MPI_Type_contiguous(long_element, MPI_INT, &large), MPI_Type_commit(&large);
  const std::vector<int> ones(long_element, 1);
  std::vector<int> ranks(long_element);
  MPI_Allreduce(ones.data(), ranks.data(), 1, large, long_sum, MPI_COMM_WORLD);  // by MPI
  expect(ranks == std::vector<int>(long_element, size_of(MPI_COMM_WORLD)), "Allreduce of a long element");
  for (auto* op : {&product, &sum, &none, &long_sum}) MPI_Op_free(op);
  for (auto* type : {&whole, &with_gap, &in_parts, &large}) MPI_Type_free(type);
}

void datatypes() {
  MPI_Datatype ints, column, row, backwards, record, mirrored;
  MPI_Type_contiguous(3, MPI_INT, &ints), MPI_Type_vector(3, 1, 2, MPI_INT, &column),
      MPI_Type_vector(1, 3, 3, MPI_INT, &row);
  const int lengths[] = {1, 1, 1}, from_the_end[] = {2, 1, 0};
  MPI_Type_indexed(3, lengths, from_the_end, MPI_INT, &backwards);
  const MPI_Aint where[] = {0, 4, 8}, mirror[] = {8, 4, 0};
  const MPI_Datatype parts[] = {MPI_INT, MPI_INT, MPI_INT};
  MPI_Type_create_struct(3, lengths, where, parts, &record),
      MPI_Type_create_struct(3, lengths, mirror, parts, &mirrored);
  for (auto* t : {&ints, &column, &row, &backwards, &record, &mirrored}) MPI_Type_commit(t);
  for (const int n : {1, 6}) {
    for (const auto type : {MPI_INT, MPI_CHAR, MPI_DOUBLE_INT, MPI_LONG_DOUBLE})
      movements(MPI_COMM_WORLD, type, type, n);
    for (const auto type : {ints, column, row, backwards, record, mirrored})
      movements(MPI_COMM_WORLD, ints, type, n), movements(MPI_COMM_WORLD, type, ints, n);
  }
  for (const int n : {0, 4000}) movements(MPI_COMM_WORLD, MPI_DOUBLE, MPI_DOUBLE, n);
  for (auto* t : {&ints, &column, &row, &backwards, &record, &mirrored}) MPI_Type_free(t);
}

void communicators() {
  const int rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  for (int i = 0; i < 5; ++i) {
    MPI_Comm part, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    reductions<int>(part, MPI_INT, MPI_SUM, 3);
    MPI_Comm_dup(part, &copy);  // must not use the state of `part`
    MPI_Comm_free(&part);
    reductions<int>(copy, MPI_INT, MPI_MAX, 3);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
  }
  reductions<float>(MPI_COMM_SELF, MPI_FLOAT, MPI_SUM, 3), movements(MPI_COMM_SELF, MPI_INT, MPI_INT, 3);
  MPI_Comm half, both;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0 ? 1 : 0, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 7, &both);
  int one = 1, others = 0;
  MPI_Allreduce(&one, &others, 1, MPI_INT, MPI_SUM, both);  // by MPI: an inter-communicator
  expect(others == (rank > 0 ? 1 : size - 1), "Allreduce of two groups");
  MPI_Barrier(both);
  MPI_Comm_free(&both), MPI_Comm_free(&half);
}

int heard = MPI_SUCCESS;
void listen(MPI_Comm*, int* code, ...) { heard = *code; }

void mistakes() {
  MPI_Comm comm;
  MPI_Errhandler handler;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(listen, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  int numbers[8] = {}, sums[8] = {};
#ifdef OPEN_MPI  // other MPIs may be built without argument checks
  int kind = MPI_SUCCESS;
  MPI_Error_class(MPI_Allreduce(numbers, sums, -1, MPI_INT, MPI_SUM, comm), &kind);
  expect(kind == MPI_ERR_COUNT,
         "a negative count is MPI's own error");  // by MPI, as every wrong call
  MPI_Error_class(MPI_Allreduce(numbers, sums, 1, MPI_FLOAT, MPI_BAND, comm), &kind);
  expect(kind == MPI_ERR_OP, "bits of a float are MPI's own error");
#endif
  heard = MPI_SUCCESS;
  const int code = MPI_Allreduce(numbers, sums, rank_in(comm) == 0 ? 8 : 4, MPI_INT, MPI_SUM, comm);
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  expect(code != MPI_SUCCESS && heard == code && std::strstr(text, "kolo: "),
         "different lengths are an error that says kolo's sentence");
  expect(MPI_Barrier(comm) == code, "the first failure stays");
  MPI_Errhandler_free(&handler), MPI_Comm_free(&comm);
}

/// A pending message that needs its sender, which waits in a collective: MPI must make progress there.
void message_under_way() {
  const int rank = rank_in(MPI_COMM_WORLD);
  std::vector<int> large(1'000'000, rank);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Isend(large.data(), static_cast<int>(large.size()), MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
  if (rank == 1)
    MPI_Recv(large.data(), static_cast<int>(large.size()), MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(rank != 1 || large.back() == 0, "a long message");
}

void threads() {
  const auto work = [](MPI_Comm comm, int factor) {
    for (int i = 0; i < 20; ++i) {
      const int mine = factor * (rank_in(comm) + i), size = size_of(comm);
      int all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
      expect(all == factor * (size * (size - 1) / 2 + size * i), "Allreduce in a thread");
    }
  };
  MPI_Comm first, second;
  MPI_Comm_dup(MPI_COMM_WORLD, &first), MPI_Comm_dup(MPI_COMM_WORLD, &second);
  std::thread other{work, first, 3};
  work(second, 5);
  other.join();
  MPI_Comm_free(&first), MPI_Comm_free(&second);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const bool under_kolo = argc > 1 && std::strcmp(argv[1], "kolo") == 0;
  predefined();
  of_the_user();
  datatypes();
  communicators();
  message_under_way();
  if (under_kolo) mistakes();  // MPI alone may hang
  if (provided == MPI_THREAD_MULTIPLE) threads();
  if (rank_in(MPI_COMM_WORLD) == 0) std::puts("passed");
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
