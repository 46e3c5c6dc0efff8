// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkolo_mpi.so: preloaded under an MPI program, it runs the program's collectives by kolo's algorithms, through MPI's profiling interface.
//
// What it cannot do it leaves to MPI: communicators of two groups, operators on datatypes with gaps, whatever MPI calls an error. That is
// decided by what the ranks agree upon, so all of them leave the same calls. Of the environment: KOLO_MPI_REPORT=1 writes a line at MPI_Finalize
// about what ran where; KOLO_MPI_TIMEOUT, in seconds, ends waiting that MPI would never end. The first collective of a communicator meets all ranks.
#include "datatypes.hpp"
#include "operators.hpp"
#include "registry.hpp"
#include "untyped.hpp"

#include <numeric>
#include <vector>

namespace under_mpi {
namespace {

thread_local bool inside = false;  // kolo itself calls some of these functions

/// An error of kolo's as an error code of MPI's, in a class of its own, with kolo's sentence; given to the communicator's error handler.
int report(entry& e, MPI_Comm comm, const std::exception& what) {
  static const int error_class = [] {
    int made = MPI_ERR_OTHER;
    PMPI_Add_error_class(&made);
    PMPI_Add_error_string(made, "kolo: a collective failed");
    return made;
  }();
  if (e.code == MPI_SUCCESS) {
    std::string text{what.what()};
    text.resize(std::min<std::size_t>(text.size(), MPI_MAX_ERROR_STRING - 1));
    if (PMPI_Add_error_code(error_class, &e.code) != MPI_SUCCESS) e.code = error_class;
    else PMPI_Add_error_string(e.code, text.c_str());
  }
  PMPI_Comm_call_errhandler(comm, e.code);
  return e.code;
}

/// `work(communicator)` does it, or says false before it has done anything; then MPI does it.
template <class Work, class ByMpi>
int call(function f, MPI_Comm comm, Work work, ByMpi by_mpi) {
  if (inside || !kolo::mpi::detail::is_running()) return by_mpi();
  struct guard {
    guard() { inside = true; }
    ~guard() { inside = false; }
  };
  entry* e = nullptr;
  bool done = false;
  try {
    const guard here;
    e = comm != MPI_COMM_NULL ? registry::all().find(comm) : nullptr;
    done = e && work(*e->comm);
  } catch (const std::exception& what) {
    return report(*e, comm, what);
  }
  registry::all().count(f, done);
  return done ? MPI_SUCCESS : by_mpi();
}

/// Would MPI take these? Whatever it would not is left to it.
bool is_good(const void* data, int count, MPI_Datatype type) {
  return count >= 0 && type != MPI_DATATYPE_NULL && data != MPI_IN_PLACE && (data || count == 0 || size_of(type) == 0 || !is_plain(type));
}
bool is_good(std::span<const int> counts) {
  return counts.data() && std::all_of(counts.begin(), counts.end(), [](int n) { return n >= 0; });
}
bool is_root(int root, const wire& comm) { return root >= 0 && root < comm.size(); }

/// The collectives that combine. `in` may be MPI_IN_PLACE, and `out` null where it does not matter.
template <kolo::kind K>
bool combined(wire& comm, const void* in, void* out, std::size_t count, MPI_Datatype type, MPI_Op op, int root = 0,
              std::span<const std::size_t> counts = {}) {
  const auto o = operation::of(op, type);
  if (!o || (in == out && count > 0)) return false;
  const bool scatters = K == kolo::kind::reduce_scatter, has_result = K != kolo::kind::reduce || root == comm.rank();
  const auto me = static_cast<std::size_t>(comm.rank());
  const auto wanted = !has_result ? 0 : !scatters ? count : counts.empty() ? count / static_cast<std::size_t>(comm.size()) : counts[me];
  void* const source = in == MPI_IN_PLACE ? out : const_cast<void*>(in);
  std::vector<std::byte> apart(scatters && in == MPI_IN_PLACE ? wanted * o->element_bytes() : 0);  // the result does not come where its block is
  void* const target = scatters && in == MPI_IN_PLACE ? apart.data() : has_result ? out : nullptr;
  if (o->commutes()) combine<K, true>(comm, o->kernel(), {source, count}, {target, wanted}, root, counts);
  else combine<K, false>(comm, o->kernel(), {source, count}, {target, wanted}, root, counts);
  if (!apart.empty()) std::memcpy(out, apart.data(), apart.size());
  return true;
}

/// Part r of what everybody gets begins `places[r]` elements from `out` on.
bool gathered(wire& comm, const void* in, int n, MPI_Datatype in_type, void* out, std::span<const int> counts, std::span<const MPI_Aint> places,
              MPI_Datatype type) {
  const auto each = size_of(type);
  const auto extent = static_cast<MPI_Aint>(extent_of(type));
  std::vector<std::size_t> bytes;
  std::size_t total = 0;
  bool in_order = true;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    bytes.push_back(static_cast<std::size_t>(counts[r]) * each);
    in_order = in_order && (counts[r] == 0 || (places[r] >= 0 && static_cast<std::size_t>(places[r]) * each == total));
    total += bytes.back();
  }
  const auto part = [&](std::size_t r) { return block{static_cast<std::byte*>(out) + places[r] * extent, static_cast<std::size_t>(counts[r]), type}; };
  const auto me = static_cast<std::size_t>(comm.rank());
  block mine = in == MPI_IN_PLACE ? part(me) : block{in, static_cast<std::size_t>(n), in_type};
  mine.fill();
  const bool direct = in_order && (total == 0 || is_plain(type));
  std::vector<std::byte> apart(direct ? 0 : total);
  const std::span<std::byte> all{direct ? static_cast<std::byte*>(out) : apart.data(), total};
  const bool is_equal = std::equal(bytes.begin() + 1, bytes.end(), bytes.begin());
  if (is_equal) kolo::allgather(comm, mine.bytes(), all);
  else kolo::allgather(comm, mine.bytes(), all, bytes);
  std::size_t first = 0;
  for (std::size_t r = 0; !direct && r < counts.size(); first += bytes[r++]) {
    block to = part(r);
    if (bytes[r] > 0) std::memcpy(to.bytes().data(), apart.data() + first, bytes[r]);
    to.spread();
  }
  return true;
}

bool exchanged(wire& comm, const void* in, int n, MPI_Datatype in_type, void* out, int out_n, MPI_Datatype type) {
  const bool in_place = in == MPI_IN_PLACE;
  const auto p = static_cast<std::size_t>(comm.size()), wanted = static_cast<std::size_t>(out_n) * p;
  block to{out, wanted, type}, from = in_place ? to : block{in, static_cast<std::size_t>(n) * p, in_type};
  from.fill();
  std::vector<std::byte> apart;
  auto bytes = from.bytes();
  if (in_place && from.is_own()) {
    apart.assign(bytes.begin(), bytes.end());
    bytes = apart;
  }
  kolo::alltoall(comm, bytes, to.bytes());
  to.spread();
  return true;
}

}  // namespace
}  // namespace under_mpi

using namespace under_mpi;
using kolo::kind;

extern "C" {

int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return call(function::allreduce, comm,
              [&](wire& c) { return is_good(out, n, type) && combined<kind::allreduce>(c, in, out, static_cast<std::size_t>(n), type, op); },
              [&] { return PMPI_Allreduce(in, out, n, type, op, comm); });
}

int MPI_Reduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return call(function::reduce, comm,
              [&](wire& c) {
                if (!is_root(root, c) || !is_good(root == c.rank() ? out : in, n, type)) return false;
                return combined<kind::reduce>(c, in, root == c.rank() ? out : nullptr, static_cast<std::size_t>(n), type, op, root);
              },
              [&] { return PMPI_Reduce(in, out, n, type, op, root, comm); });
}

int MPI_Scan(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return call(function::scan, comm, [&](wire& c) { return is_good(out, n, type) && combined<kind::scan>(c, in, out, static_cast<std::size_t>(n), type, op); },
              [&] { return PMPI_Scan(in, out, n, type, op, comm); });
}

int MPI_Reduce_scatter_block(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return call(function::reduce_scatter_block, comm,
              [&](wire& c) {
                const auto all = static_cast<std::size_t>(n) * static_cast<std::size_t>(c.size());
                return is_good(out, n, type) && combined<kind::reduce_scatter>(c, in, out, all, type, op);
              },
              [&] { return PMPI_Reduce_scatter_block(in, out, n, type, op, comm); });
}

int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return call(function::reduce_scatter, comm,
              [&](wire& c) {
                const std::span given{counts, static_cast<std::size_t>(c.size())};
                if (!is_good(given) || type == MPI_DATATYPE_NULL || out == MPI_IN_PLACE) return false;
                const std::vector<std::size_t> each(given.begin(), given.end());
                return combined<kind::reduce_scatter>(c, in, out, std::accumulate(each.begin(), each.end(), std::size_t{0}), type, op, 0, each);
              },
              [&] { return PMPI_Reduce_scatter(in, out, counts, type, op, comm); });
}

int MPI_Bcast(void* data, int n, MPI_Datatype type, int root, MPI_Comm comm) {
  return call(function::broadcast, comm,
              [&](wire& c) {
                if (!is_good(data, n, type) || !is_root(root, c)) return false;
                block b{data, static_cast<std::size_t>(n), type};
                if (c.rank() == root) b.fill();
                kolo::broadcast(c, b.bytes(), root);
                if (c.rank() != root) b.spread();
                return true;
              },
              [&] { return PMPI_Bcast(data, n, type, root, comm); });
}

int MPI_Allgather(const void* in, int n, MPI_Datatype in_type, void* out, int out_n, MPI_Datatype type, MPI_Comm comm) {
  return call(function::allgather, comm,
              [&](wire& c) {
                if (!is_good(out, out_n, type) || (in != MPI_IN_PLACE && !is_good(in, n, in_type))) return false;
                const std::vector<int> counts(static_cast<std::size_t>(c.size()), out_n);
                std::vector<MPI_Aint> places;
                for (int r = 0; r < c.size(); ++r) places.push_back(MPI_Aint{r} * out_n);
                return gathered(c, in, n, in_type, out, counts, places, type);
              },
              [&] { return PMPI_Allgather(in, n, in_type, out, out_n, type, comm); });
}

int MPI_Allgatherv(const void* in, int n, MPI_Datatype in_type, void* out, const int counts[], const int places[], MPI_Datatype type, MPI_Comm comm) {
  return call(function::allgatherv, comm,
              [&](wire& c) {
                const auto p = static_cast<std::size_t>(c.size());
                if (!is_good({counts, p}) || !places || type == MPI_DATATYPE_NULL || out == MPI_IN_PLACE) return false;
                if (in != MPI_IN_PLACE && !is_good(in, n, in_type)) return false;
                return gathered(c, in, n, in_type, out, {counts, p}, std::vector<MPI_Aint>(places, places + p), type);
              },
              [&] { return PMPI_Allgatherv(in, n, in_type, out, counts, places, type, comm); });
}

int MPI_Alltoall(const void* in, int n, MPI_Datatype in_type, void* out, int out_n, MPI_Datatype type, MPI_Comm comm) {
  return call(function::alltoall, comm,
              [&](wire& c) {
                if (!is_good(out, out_n, type) || (in != MPI_IN_PLACE && !is_good(in, n, in_type))) return false;
                return exchanged(c, in, n, in_type, out, out_n, type);
              },
              [&] { return PMPI_Alltoall(in, n, in_type, out, out_n, type, comm); });
}

int MPI_Barrier(MPI_Comm comm) {
  return call(function::barrier, comm, [](wire& c) { return kolo::barrier(c), true; }, [&] { return PMPI_Barrier(comm); });
}

int MPI_Finalize() {
  registry::all().end();
  return PMPI_Finalize();
}

}  // extern "C"
