// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI's collectives by kolo's algorithms, for counts of any integer type.
#pragma once

#include "arguments.hpp"
#include "operators.hpp"
#include "registry.hpp"

#include <numeric>
#include <optional>
#include <vector>

namespace under_mpi {

/// Converts an exception to an MPI error code with its message, in an error class of its own, and calls the communicator's error handler.
inline int report(entry& e, MPI_Comm comm, const std::exception& what) {
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

/// Reports this rank's failure to the others, which would wait for it, unless a failure is known already.
inline void report_failure(communicator& comm, const std::exception& what) {
  if (comm.transport().failed()) return;
  kolo::failure f;
  f.code = kolo::errc::peer_failed;
  f.rank = f.peer = comm.rank();
  f.text = what.what();
  comm.transport().fail(f);
}

/// `verdict(entry)`: MPI_SUCCESS, an error class, or `left_to_mpi`; it does not communicate, so that a refused call has no effect and may be repeated.
template <class Verdict, class Work, class ByMpi>
int call(function f, MPI_Comm comm, Verdict verdict, Work work, ByMpi by_mpi) {
  if (inside) return by_mpi();
  auto& all = registry::all();
  entry* const e = all.find(comm);
  const int code = e ? verdict(*e) : left_to_mpi;
  if (code > MPI_SUCCESS) {
    e->refused = true;
    PMPI_Comm_call_errhandler(comm, code);
    return code;
  }
  bool done = false;
  if (code == MPI_SUCCESS) {
    try {
      const inside_kolo here;
      done = all.meet(*e, comm);
      if (done) work(*e->comm);
      e->refused = false;
    } catch (const std::exception& what) {
      if (e->comm) report_failure(*e->comm, what);
      return report(*e, comm, what);
    }
  }
  all.count(f, done);
  return done ? MPI_SUCCESS : by_mpi();
}

/// Without an operation (undefined in MPI, or elements with gaps) the call is left to MPI. All ranks agree on that.
inline int verdict_on(const std::optional<operation>& o, std::initializer_list<int> faults) {
  return o ? first_fault(faults) : left_to_mpi;
}

/// The collectives that reduce. `in` may be MPI_IN_PLACE, and `out` null where it is not significant.
template <kolo::kind K>
void combined(communicator& comm, const void* in, void* out, std::size_t count, const operation& o, int root = 0,
              std::span<const std::size_t> counts = {}) {
  const bool scatters = K == kolo::kind::reduce_scatter, has_result = K != kolo::kind::reduce || root == comm.rank();
  const auto me = static_cast<std::size_t>(comm.rank());
  const auto wanted = !has_result      ? 0
                      : !scatters      ? count
                      : counts.empty() ? count / static_cast<std::size_t>(comm.size())
                                       : counts[me];
  const bool in_place = in == MPI_IN_PLACE || (has_result && in == out);
  const void* const source = in_place ? out : in;
  // In place, the result of a reduce-scatter goes to the beginning of the buffer, not to this rank's block.
  std::vector<std::byte> apart(scatters && in_place ? wanted * o.element_bytes() : 0);
  void* const target = scatters && in_place ? apart.data() : has_result ? out : nullptr;
  const auto combine = [&](const auto& op) {
    const kolo::elements from{source, count, o.element_bytes()};
    const kolo::elements to{target, wanted, o.element_bytes()};
    if constexpr (K == kolo::kind::allreduce) kolo::allreduce(comm, from, to, op);
    else if constexpr (K == kolo::kind::scan) kolo::scan(comm, from, to, op);
    else if constexpr (K == kolo::kind::reduce) kolo::reduce(comm, from, to, op, root);
    else if (counts.empty()) kolo::reduce_scatter(comm, from, to, op);
    else kolo::reduce_scatter(comm, from, to, counts, op);
  };
  if (o.commutes()) combine(kolo::by_kernel{o.kernel(), o.code()});
  else combine(kolo::by_kernel<false>{o.kernel(), o.code()});
  if (!apart.empty()) std::memcpy(out, apart.data(), apart.size());
}

template <kolo::kind K, class N, class ByMpi>
int reduced_everywhere(function f, const void* in, void* out, N n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                       ByMpi by_mpi) {
  std::optional<operation> o;
  const buffer<N> given{in, n, type}, wanted{out, n, type};
  return call(
      f, comm,
      [&](const entry&) {
        if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
        return verdict_on(o = operation::of(op, type), {fault_of(given, wanted, out)});
      },
      [&](communicator& c) { combined<K>(c, in, out, static_cast<std::size_t>(n), *o); }, by_mpi);
}

template <class N, class ByMpi>
int reduce(const void* in, void* out, N n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm, ByMpi by_mpi) {
  std::optional<operation> o;
  const buffer<N> given{in, n, type}, wanted{out, n, type};
  return call(
      function::reduce, comm,
      [&](const entry& e) {
        if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
        return verdict_on(o = operation::of(op, type),
                          {fault_of_root(root, e.size), root == e.rank ? fault_of(given, wanted, out) : given.fault()});
      },
      [&](communicator& c) {
        combined<kolo::kind::reduce>(c, in, root == c.rank() ? out : nullptr, static_cast<std::size_t>(n), *o, root);
      },
      by_mpi);
}

template <class N, class ByMpi>
int reduce_scatter_block(const void* in, void* out, N n, MPI_Datatype type, MPI_Op op, MPI_Comm comm, ByMpi by_mpi) {
  std::optional<operation> o;
  const auto all = [&](int size) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(size); };
  return call(
      function::reduce_scatter_block, comm,
      [&](const entry& e) {
        if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
        if (n < 0) return MPI_ERR_COUNT;
        const buffer<MPI_Count> given{in, static_cast<MPI_Count>(all(e.size)), type};
        return verdict_on(o = operation::of(op, type), {fault_of(given, buffer<N>{out, n, type}, out)});
      },
      [&](communicator& c) { combined<kolo::kind::reduce_scatter>(c, in, out, all(c.size()), *o); }, by_mpi);
}

template <class N, class ByMpi>
int reduce_scatter(const void* in, void* out, const N counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   ByMpi by_mpi) {
  std::optional<operation> o;
  std::vector<std::size_t> each;
  std::size_t all = 0;
  return call(
      function::reduce_scatter, comm,
      [&](const entry& e) {
        const std::span given{counts, static_cast<std::size_t>(e.size)};
        if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
        if (const int wrong = fault_of(given)) return wrong;
        each.assign(given.begin(), given.end());
        all = std::accumulate(each.begin(), each.end(), std::size_t{0});
        const buffer<MPI_Count> from{in, static_cast<MPI_Count>(all), type};
        return verdict_on(o = operation::of(op, type), {fault_of(from, buffer<N>{out, counts[e.rank], type}, out)});
      },
      [&](communicator& c) { combined<kolo::kind::reduce_scatter>(c, in, out, all, *o, 0, each); }, by_mpi);
}

template <class N, class ByMpi>
int broadcast(void* data, N n, MPI_Datatype type, int root, MPI_Comm comm, ByMpi by_mpi) {
  return call(
      function::broadcast, comm,
      [&](const entry& e) {
        return first_fault({buffer<N>{data, n, type}.fault(), fault_of_root(root, e.size)});
      },
      [&](communicator& c) {
        block b{data, static_cast<std::size_t>(n), type};
        if (c.rank() == root) b.fill();
        kolo::broadcast(c, b.bytes(), root);
        if (c.rank() != root) b.spread();
      },
      by_mpi);
}

/// The total count if each part begins where the previous one ends, otherwise nothing.
template <class N, class P>
std::optional<std::size_t> side_by_side(std::span<const N> counts, std::span<const P> places) {
  std::size_t total = 0;
  for (std::size_t r = 0; r < counts.size(); total += static_cast<std::size_t>(counts[r++]))
    if (counts[r] != 0 && (places[r] < 0 || static_cast<std::size_t>(places[r]) != total)) return std::nullopt;
  return total;
}

/// An allgather in which part r begins `places[r]` elements after `out`.
inline void gathered(communicator& comm, const void* in, std::size_t n, MPI_Datatype in_type, void* out,
                     std::span<const std::size_t> counts, std::span<const MPI_Aint> places, MPI_Datatype type) {
  const auto each = size_of(type);
  const auto extent = static_cast<MPI_Aint>(extent_of(type));
  std::vector<std::size_t> bytes;
  for (const auto n_r : counts) bytes.push_back(n_r * each);
  const auto total = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  const auto part = [&](std::size_t r) {
    return block{static_cast<std::byte*>(out) + places[r] * extent, counts[r], type};
  };
  block mine = in == MPI_IN_PLACE ? part(static_cast<std::size_t>(comm.rank())) : block{in, n, in_type};
  mine.fill();
  const bool direct = total == 0 || (is_plain(type) && side_by_side(counts, places));
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
}

/// `whole`: the output if its parts are contiguous, otherwise this rank's part of it.
template <class N, class M>
int fault_of_gathered(const buffer<N>& in, const buffer<M>& part, const buffer<MPI_Count>& whole) {
  if (const int wrong = first_fault({whole.fault(), part.fault()}); wrong != MPI_SUCCESS || in.is_in_place())
    return wrong;
  if (const int wrong = in.fault()) return wrong;
  if (const int wrong = fault_of_lengths(in.bytes(), part.bytes())) return wrong;
  return fault_of(in, whole, part.data);
}
inline const std::byte* element(const void* data, MPI_Aint place, MPI_Datatype type) {
  return static_cast<const std::byte*>(data) + place * static_cast<MPI_Aint>(extent_of(type));
}

template <class N, class ByMpi>
int allgather(const void* in, N n, MPI_Datatype in_type, void* out, N out_n, MPI_Datatype type, MPI_Comm comm,
              ByMpi by_mpi) {
  return call(
      function::allgather, comm,
      [&](const entry& e) {
        const buffer<N> given{in, n, in_type}, first{out, out_n, type};
        if (const int wrong = first.fault()) return wrong;
        const buffer<N> part{element(out, MPI_Aint{e.rank} * static_cast<MPI_Aint>(out_n), type), out_n, type};
        return fault_of_gathered(given, part, buffer<MPI_Count>{out, MPI_Count{out_n} * e.size, type});
      },
      [&](communicator& c) {
        const std::vector<std::size_t> counts(static_cast<std::size_t>(c.size()), static_cast<std::size_t>(out_n));
        std::vector<MPI_Aint> places;
        for (int r = 0; r < c.size(); ++r) places.push_back(MPI_Aint{r} * static_cast<MPI_Aint>(out_n));
        gathered(c, in, static_cast<std::size_t>(n), in_type, out, counts, places, type);
      },
      by_mpi);
}

template <class N, class P, class ByMpi>
int allgatherv(const void* in, N n, MPI_Datatype in_type, void* out, const N counts[], const P places[],
               MPI_Datatype type, MPI_Comm comm, ByMpi by_mpi) {
  return call(
      function::allgatherv, comm,
      [&](const entry& e) {
        if (!places) return MPI_ERR_ARG;
        const std::span all{counts, static_cast<std::size_t>(e.size)};
        if (const int wrong = fault_of(all)) return wrong;
        if (const int wrong = buffer<N>{out, *std::max_element(all.begin(), all.end()), type}.fault()) return wrong;
        const buffer<N> given{in, n, in_type},
            part{element(out, static_cast<MPI_Aint>(places[e.rank]), type), counts[e.rank], type};
        const auto total = side_by_side(all, std::span{places, all.size()});
        return fault_of_gathered(given, part,
                                 total ? buffer<MPI_Count>{out, static_cast<MPI_Count>(*total), type}
                                       : buffer<MPI_Count>{part.data, counts[e.rank], type});
      },
      [&](communicator& c) {
        const std::vector<std::size_t> lengths(counts, counts + c.size());
        const std::vector<MPI_Aint> where(places, places + c.size());
        gathered(c, in, static_cast<std::size_t>(n), in_type, out, lengths, where, type);
      },
      by_mpi);
}

inline void exchanged(communicator& comm, const void* in, std::size_t n, MPI_Datatype in_type, void* out,
                      std::size_t out_n, MPI_Datatype type) {
  const bool in_place = in == MPI_IN_PLACE || in == out;
  const auto p = static_cast<std::size_t>(comm.size());
  block to{out, out_n * p, type}, from = in_place ? to : block{in, n * p, in_type};
  from.fill();
  std::vector<std::byte> apart;
  auto bytes = from.bytes();
  if (in_place && from.is_own()) {
    apart.assign(bytes.begin(), bytes.end());
    bytes = apart;
  }
  kolo::alltoall(comm, bytes, to.bytes());
  to.spread();
}

template <class N, class ByMpi>
int alltoall(const void* in, N n, MPI_Datatype in_type, void* out, N out_n, MPI_Datatype type, MPI_Comm comm,
             ByMpi by_mpi) {
  return call(
      function::alltoall, comm,
      [&](const entry& e) {
        const buffer<MPI_Count> given{in, MPI_Count{n} * e.size, in_type}, wanted{out, MPI_Count{out_n} * e.size, type};
        if (const int wrong = fault_of(given, wanted, out); wrong != MPI_SUCCESS || given.is_in_place()) return wrong;
        return fault_of_lengths(given.bytes(), wanted.bytes());
      },
      [&](communicator& c) {
        exchanged(c, in, static_cast<std::size_t>(n), in_type, out, static_cast<std::size_t>(out_n), type);
      },
      by_mpi);
}

}  // namespace under_mpi
