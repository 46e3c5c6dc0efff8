// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkolo_mpi.so beside MPI: wrong arguments, many communicators, large counts, threads, sessions, spawned processes.
// Usage: manners [sessions | spawn]
#include "program.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

int class_of(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind;
}
std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}
MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}
void expect_whole(MPI_Comm comm, const char* when) {
  const int one = 1;
  int sum = 0;
  expect(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size_of(comm), when);
}

/// A wrong call: first on all ranks, then on one.
template <class F>
void each_refused(int kind, F call) {
  auto comm = copy_of(MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i) {  // as the first call of a communicator, and later
    expect(class_of(call(comm)) == kind, "a wrong argument is an error of MPI's class");
    expect_whole(comm, "the communicator works after a refused call");
  }
  if (rank_in(comm) == 0) expect(class_of(call(comm)) == kind, "a wrong argument on one rank only");
  expect_whole(comm, "the others waited for the right call");
  MPI_Comm_free(&comm);
}

void refused() {
  static int a[64], b[64], counts[16], places[16], negative[16];
  for (int r = 0; r < 16; ++r) counts[r] = 2, places[r] = 2 * r, negative[r] = -1;
  const auto null = nullptr;
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Allreduce(null, b, 4, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Allreduce(a, null, 4, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Allreduce(a, a + 1, 4, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Scan(null, b, 4, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Reduce(null, b, 4, MPI_INT, MPI_SUM, 0, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Reduce_scatter_block(null, b, 2, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Reduce_scatter(null, b, counts, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Reduce_scatter(a, null, counts, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Bcast(null, 1, MPI_INT, 0, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Allgather(null, 1, MPI_INT, b, 1, MPI_INT, c); });
  each_refused(MPI_ERR_BUFFER,
               [&](MPI_Comm c) { return MPI_Allgatherv(null, 2, MPI_INT, b, counts, places, MPI_INT, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Alltoall(null, 1, MPI_INT, b, 1, MPI_INT, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Alltoall(a, 1, MPI_INT, a + 1, 1, MPI_INT, c); });
  each_refused(MPI_ERR_COUNT, [&](MPI_Comm c) { return MPI_Bcast(a, -1, MPI_INT, 0, c); });
  each_refused(MPI_ERR_COUNT, [&](MPI_Comm c) { return MPI_Reduce_scatter(a, b, negative, MPI_INT, MPI_SUM, c); });
  each_refused(MPI_ERR_TYPE, [&](MPI_Comm c) { return MPI_Allreduce(a, b, 1, MPI_DATATYPE_NULL, MPI_SUM, c); });
  each_refused(MPI_ERR_ROOT, [&](MPI_Comm c) { return MPI_Bcast(a, 1, MPI_INT, 99, c); });
  each_refused(MPI_ERR_TRUNCATE, [&](MPI_Comm c) { return MPI_Allgather(a, 2, MPI_INT, b, 1, MPI_INT, c); });
  each_refused(MPI_ERR_TRUNCATE, [&](MPI_Comm c) { return MPI_Alltoall(a, 2, MPI_INT, b, 1, MPI_INT, c); });
  int twice[16] = {};
#if defined(OPEN_MPI)  // allows one buffer for both
  expect(MPI_Alltoall(twice, 1, MPI_INT, twice, 1, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS, "one buffer");
#else
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Alltoall(twice, 1, MPI_INT, twice, 1, MPI_INT, c); });
  each_refused(MPI_ERR_BUFFER, [&](MPI_Comm c) { return MPI_Allreduce(twice, twice, 1, MPI_INT, MPI_SUM, c); });
#endif
}

/// A rank whose call is refused frees the communicator without repeating the call: no rank waits.
void refused_and_gone(int calls_before) {
  auto comm = copy_of(MPI_COMM_WORLD);
  const int rank = rank_in(comm);
  int sum = 0;
  for (int i = 0; i < calls_before; ++i) expect_whole(comm, "before");
  const int code = MPI_Allreduce(rank == 0 ? nullptr : &rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (rank == 0) expect(class_of(code) == MPI_ERR_BUFFER, "its own error");
  else expect(text_of(code).find("refused") != std::string::npos, "the others get the error");
  MPI_Comm_free(&comm);
}

#if !defined(OPEN_MPI)  // in Open MPI the handle is a pointer to freed memory

/// MPI itself refuses a call on a freed communicator.
void freed() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  auto comm = copy_of(MPI_COMM_WORLD);
  const auto stale = comm;
  MPI_Comm_free(&comm);
  expect(class_of(MPI_Barrier(stale)) == MPI_ERR_COMM, "a freed communicator is an error of MPI's class");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

#endif

void operators_differ() {
  auto comm = copy_of(MPI_COMM_WORLD);
  const int rank = rank_in(comm), one = 1;
  int result = 0;
  const int code = MPI_Allreduce(&one, &result, 1, MPI_INT, rank == 0 ? MPI_SUM : MPI_MAX, comm);
  expect(text_of(code).find("another collective, count, type, operator") != std::string::npos,
         "different operators are an error");
  expect(MPI_Barrier(comm) == code, "the first failure stays");
  MPI_Comm_free(&comm);
  expect_whole(MPI_COMM_WORLD, "a failure of one communicator does not affect another");
}

/// A rank waits in a collective for a rank that waits for the first one's pending message: MPI must make progress there.
void sent_before() {
  auto comm = copy_of(MPI_COMM_WORLD);
  const int rank = rank_in(comm), size = size_of(comm);
  std::vector<int> sent(1 << 18, rank), received(sent.size());
  const int n = static_cast<int>(sent.size());
  for (int i = 0; i < 8 * size; ++i) {  // by messages first, then in shared memory
    const int from = i % size, to = (i + 1) % size;
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == from) MPI_Isend(sent.data(), n, MPI_INT, to, i, comm, &request);
    if (rank == to) MPI_Recv(received.data(), n, MPI_INT, from, i, comm, MPI_STATUS_IGNORE);
    expect_whole(comm, "while a message is pending");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == to) expect(received.back() == from, "the pending message");
  }
  MPI_Comm_free(&comm);
}

/// More than a third of MPICH's 2046 communicators; Open MPI takes long for each.
void many() {
#if defined(OPEN_MPI)
  constexpr int number = 100;
#else
  constexpr int number = 800;
#endif
  std::vector<MPI_Comm> all;
  for (int i = 0; i < number; ++i) {
    all.push_back(copy_of(i % 3 == 0 && i > 0 ? all.back() : MPI_COMM_WORLD));
    MPI_Barrier(all.back());
  }
  expect_whole(all[7], "the eighth of many"), expect_whole(all.back(), "the last of many");
  for (auto& c : all) MPI_Comm_free(&c);
}

/// Communicators made, used and freed by threads at once, with another order of ranks each time: no number may be used twice.
void made_by_threads() {
  const auto work = [](MPI_Comm all, int factor) {
    for (int i = 0; i < 30; ++i) {
      MPI_Comm part = MPI_COMM_NULL;
      MPI_Comm_split(all, 0, (rank_in(all) + i) % size_of(all), &part);
      const int mine = factor * (rank_in(part) + i), size = size_of(part);
      int sum = 0;
      for (int k = 0; k < 3; ++k) {
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, part);
        expect(sum == factor * (size * (size - 1) / 2 + size * i), "Allreduce in a thread's own communicator");
      }
      MPI_Comm_free(&part);
    }
  };
  auto first = copy_of(MPI_COMM_WORLD), second = copy_of(MPI_COMM_WORLD);
  std::thread other{work, first, 3};
  work(second, 5);
  other.join();
  MPI_Comm_free(&first), MPI_Comm_free(&second);
}

#if MPI_VERSION >= 4

void add_fours(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < 4 * *n; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

/// Datatypes made with counts of type MPI_Count, in the usual collectives and in the large-count ones.
void large_counts() {
  MPI_Datatype whole, rows, record, gaps;
  const MPI_Count lengths[] = {2, 2}, where[] = {0, 8};
  const MPI_Datatype ints[] = {MPI_INT, MPI_INT};
  MPI_Type_contiguous_c(4, MPI_INT, &whole), MPI_Type_vector_c(2, 2, 2, MPI_INT, &rows),
      MPI_Type_create_struct_c(2, lengths, where, ints, &record);
  MPI_Type_vector_c(2, 2, 3, MPI_INT, &gaps);
  MPI_Op sum;
  MPI_Op_create(add_fours, 1, &sum);
  const int rank = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  for (auto* t : {&whole, &rows, &record, &gaps}) {
    MPI_Type_commit(t);
    movements(MPI_COMM_WORLD, whole, *t, 3), movements(MPI_COMM_WORLD, *t, whole, 3);
    if (t == &gaps) continue;
    int x[8], y[8] = {};
    for (int i = 0; i < 8; ++i) x[i] = rank + i;
    MPI_Allreduce(x, y, 2, *t, sum, MPI_COMM_WORLD);
    for (int i = 0; i < 8; ++i)
      expect(y[i] == size * (size - 1) / 2 + size * i, "an operator on a datatype of large counts", *t);
  }
  MPI_Op_free(&sum);
  for (auto* t : {&whole, &rows, &record, &gaps}) MPI_Type_free(t);

  const auto p = static_cast<std::size_t>(size);
  std::vector<int> x(2 * p), y(2 * p);
  const std::vector<MPI_Count> counts(p, 2);
  std::vector<MPI_Aint> places(p);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = rank + static_cast<int>(i), places[i / 2] = static_cast<MPI_Aint>(i / 2 * 2);
  const int all = size * (size - 1) / 2, so_far = rank * (rank + 1) / 2;
  const MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Allreduce_c(x.data(), y.data(), 1, MPI_INT, MPI_SUM, comm), expect(y[0] == all, "Allreduce_c");
  MPI_Scan_c(x.data(), y.data(), 1, MPI_INT, MPI_SUM, comm), expect(y[0] == so_far, "Scan_c");
  MPI_Reduce_c(x.data(), y.data(), 1, MPI_INT, MPI_SUM, 0, comm), expect(rank != 0 || y[0] == all, "Reduce_c");
  MPI_Reduce_scatter_block_c(x.data(), y.data(), 2, MPI_INT, MPI_SUM, comm),
      expect(y[1] == all + size * (2 * rank + 1), "Reduce_scatter_block_c");
  MPI_Reduce_scatter_c(x.data(), y.data(), counts.data(), MPI_INT, MPI_SUM, comm),
      expect(y[1] == all + size * (2 * rank + 1), "Reduce_scatter_c");
  MPI_Allgather_c(x.data(), 2, MPI_INT, y.data(), 2, MPI_INT, comm), expect(y.back() == size, "Allgather_c");
  std::fill(y.begin(), y.end(), -1);
  MPI_Allgatherv_c(x.data(), 2, MPI_INT, y.data(), counts.data(), places.data(), MPI_INT, comm),
      expect(y.back() == size, "Allgatherv_c");
  MPI_Alltoall_c(x.data(), 2, MPI_INT, y.data(), 2, MPI_INT, comm),
      expect(y.back() == size - 1 + 2 * rank + 1, "Alltoall_c");
  MPI_Bcast_c(x.data(), 1, MPI_INT, size - 1, comm), expect(x[0] == size - 1, "Bcast_c");
}

/// Without MPI_COMM_WORLD and MPI_Finalize.
int sessions() {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "kolo", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  const int one = 1;
  int sum = 0, size = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_size(comm, &size);
  MPI_Comm_free(&comm), MPI_Group_free(&group);
  return MPI_Session_finalize(&session) == MPI_SUCCESS && size > 1 && sum == size ? 0 : 1;
}

#endif

/// Parents and children share a communicator that is not in MPI_COMM_WORLD; the children may run without the library.
void spawn(const char* program) {
  MPI_Comm parent, between, all;
  char word[] = "spawn", *words[] = {word, nullptr};
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);  // Open MPI 5 hands nothing else on
    if (const char* const library = std::getenv("LD_PRELOAD"))
      MPI_Info_set(info, "env", (std::string{"LD_PRELOAD="} + library).c_str());
    MPI_Comm_spawn(program, words, 2, info, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    MPI_Info_free(&info);
  }
  MPI_Intercomm_merge(parent == MPI_COMM_NULL ? between : parent, parent != MPI_COMM_NULL, &all);
  expect_whole(all, "parents and children");
  expect_whole(MPI_COMM_WORLD, "the parents alone, and the children");
  MPI_Comm_free(&all), MPI_Comm_disconnect(parent == MPI_COMM_NULL ? &between : &parent);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
#if MPI_VERSION >= 4
  if (what == "sessions") return sessions();
#endif
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (what == "spawn") {
    spawn(argv[0]);
  } else {
    refused();
    refused_and_gone(1);
    refused_and_gone(2 * size_of(MPI_COMM_WORLD));  // in the call that would switch to shared memory,
    refused_and_gone(20);                           // and after the switch
#if !defined(OPEN_MPI)
    freed();
#endif
    operators_differ();
    sent_before();
    many();
    if (provided == MPI_THREAD_MULTIPLE) made_by_threads();
#if MPI_VERSION >= 4
    large_counts();
#endif
  }
  return PMPI_Finalize() == MPI_SUCCESS ? 0 : 1;  // as a profiler, or another language, calls it
}
