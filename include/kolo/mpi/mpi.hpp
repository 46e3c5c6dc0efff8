// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over MPI: the communicator over one of MPI's, and all collectives. The header that MPI programs include.
#pragma once

#include <kolo/compose/routed.hpp>
#include <kolo/kolo.hpp>
#include <kolo/mpi/transport.hpp>

namespace kolo::inline KOLO_ABI::mpi {

static_assert(MessageTransport<transport> && !SlotTransport<transport>);

/// `communicator comm{MPI_COMM_WORLD};` or `communicator comm{MPI_COMM_WORLD, options{.timeout = 30s}};`, collective
/// over its ranks. Destroy it before MPI_Finalize; where that came first, nothing happens.
using communicator = kolo::communicator<transport>;

/// The same, made and used alike, with shared memory between ranks of one node (hosts, or as `ranks_per_node` says).
/// Where there is one node only, calls run at the speed of shared memory, with its bits; `two_level` with the nodes of
/// `kolo::topology_of(comm)` is made for several.
using routed_communicator = kolo::communicator<routed<shm::transport, transport>>;

/// MPI_Init and MPI_Finalize, for programs that want them as an object: `kolo::mpi::environment env{argc, argv};`.
/// Where MPI is initialised already, it only checks the level. `threads`: the level to request; `kolo::background`
/// needs MPI_THREAD_SERIALIZED. Errors: `invalid_argument` if MPI does not provide that level; the level of MPI_Init is
/// enough for MPI_THREAD_FUNNELED.
class environment {
 public:
  environment(int& argc, char**& argv, int threads = MPI_THREAD_FUNNELED) {
    int begun = 0, provided = 0;
    MPI_Initialized(&begun);
    if (begun != 0) {
      if (threads <= MPI_THREAD_FUNNELED || !detail::mpi::is_running()) return;
      provided = detail::mpi::thread_level();
    } else {
      detail::mpi::check(MPI_Init_thread(&argc, &argv, threads, &provided), "MPI_Init_thread");
      is_ours_ = true;
    }
    if (provided >= threads) return;
    if (is_ours_) MPI_Finalize();
    throw error{errc::invalid_argument,
                "this MPI provides the thread level " + std::to_string(provided) + ", not " + std::to_string(threads)};
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() {
    if (is_ours_ && detail::mpi::is_running()) MPI_Finalize();
  }

 private:
  bool is_ours_ = false;
};

}  // namespace kolo::inline KOLO_ABI::mpi

namespace kolo::inline KOLO_ABI {

/// MPI's collectives, non-blocking, so that deadlines hold. Where nothing is combined, elements are bytes to MPI.
template <>
struct native_of<mpi::transport> {
  template <kind K, class T, class Op>
  static constexpr bool has() {
    return !detail::schedule::reduces(K) || (is_predefined<T> && has_op<T, Op>());
  }

  static const char* refusal(const collective_args& args, int /*rank*/, int size) {
    const auto whole = detail::schedule::in_all(args.collective, args.count, size);
    if (std::max({whole, args.in.count, args.out.count}) * args.compute.element_bytes > INT_MAX)
      return "MPI's own collective takes at most 2^31 - 1 bytes: name an algorithm of kolo's, which take any number";
    return nullptr;
  }

  template <kind K, class T, class Op>
  static constexpr auto start() {
    return [](void* transport, const collective_args& args, void* ticket) {
      auto& its = *static_cast<mpi::transport*>(transport);
      *static_cast<mpi::ticket*>(ticket) = its.collective(name(K), [&](MPI_Comm comm, MPI_Request* r) {
        if constexpr (K == kind::barrier) return MPI_Ibarrier(comm, r);
        else if constexpr (detail::schedule::reduces(K))
          return combine<K>(its, args, type_of<T>(), op_of<Op>(), comm, r);
        else return move<K>(its, args, comm, r);
      });
    };
  }

 private:
  /// Not every floating-point type is one of C's: std::float16_t, or __float128 with the extensions of GNU.
  template <class T>
  static constexpr bool is_predefined =
      (std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8) || std::same_as<T, float> ||
      std::same_as<T, double> || std::same_as<T, long double>;

  template <class T, class Op>
  static constexpr bool has_op() {
    constexpr bool is_bitwise =
        std::same_as<Op, bit_and_t> || std::same_as<Op, bit_or_t> || std::same_as<Op, bit_xor_t>;
    return std::same_as<Op, sum_t> || std::same_as<Op, product_t> || std::same_as<Op, min_t> ||
           std::same_as<Op, max_t> || std::same_as<Op, average_t> || (is_bitwise && std::integral<T>);
  }
  template <class Op>
  static MPI_Op op_of() {
    if constexpr (std::same_as<Op, product_t>) return MPI_PROD;
    else if constexpr (std::same_as<Op, min_t>) return MPI_MIN;
    else if constexpr (std::same_as<Op, max_t>) return MPI_MAX;
    else if constexpr (std::same_as<Op, bit_and_t>) return MPI_BAND;
    else if constexpr (std::same_as<Op, bit_or_t>) return MPI_BOR;
    else if constexpr (std::same_as<Op, bit_xor_t>) return MPI_BXOR;
    else return MPI_SUM;
  }
  template <class T>
  static MPI_Datatype type_of() {
    if constexpr (std::same_as<T, float>) return MPI_FLOAT;
    else if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
    else if constexpr (std::same_as<T, long double>) return MPI_LONG_DOUBLE;
    else if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? MPI_INT8_T : MPI_UINT8_T;
    else if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? MPI_INT16_T : MPI_UINT16_T;
    else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? MPI_INT32_T : MPI_UINT32_T;
    else return std::is_signed_v<T> ? MPI_INT64_T : MPI_UINT64_T;
  }

  template <kind K>
  static int combine(mpi::transport& its, const collective_args& args, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                     MPI_Request* r) {
    const int n = int(args.count);
    const bool in_place = args.in.base == args.out.base && args.in.count == args.out.count;
    const void* const in = in_place ? MPI_IN_PLACE : args.in.base;
    if constexpr (K == kind::allreduce) return MPI_Iallreduce(in, args.out.base, n, type, op, comm, r);
    else if constexpr (K == kind::scan) return MPI_Iscan(in, args.out.base, n, type, op, comm, r);
    else if constexpr (K == kind::exclusive_scan) return MPI_Iexscan(in, args.out.base, n, type, op, comm, r);
    else if constexpr (K == kind::reduce)
      return MPI_Ireduce(its.rank() == args.root ? in : args.in.base, args.out.base, n, type, op, args.root, comm, r);
    else {
      auto& counts = its.numbers();
      counts.clear();
      for (int q = 0; q < its.size(); ++q)
        counts.push_back(int(args.send_counts ? args.send_counts[q] : block(args.count, its.size(), q).count));
      return MPI_Ireduce_scatter(args.in.base, args.out.base, counts.data(), type, op, comm, r);
    }
  }

  /// Bytes of each rank's part, and where it begins: of counts[q] elements, or of args.count each where `counts` is
  /// null. Appended to the numbers.
  static std::size_t parts(mpi::transport& its, const collective_args& args, const std::size_t* counts) {
    auto& numbers = its.numbers();
    const auto begin = numbers.size(), p = std::size_t(its.size());
    int first = 0;
    for (std::size_t q = 0; q < p; ++q)
      numbers.push_back(int((counts ? counts[q] : args.count) * args.compute.element_bytes));
    for (std::size_t q = 0; q < p; ++q) {
      numbers.push_back(first);
      first += numbers[begin + q];
    }
    return begin;
  }

  template <kind K>
  static int move(mpi::transport& its, const collective_args& args, MPI_Comm comm, MPI_Request* r) {
    const auto p = std::size_t(its.size()), me = std::size_t(its.rank());
    if constexpr (K == kind::broadcast)
      return MPI_Ibcast(args.out.base, int(args.count * args.compute.element_bytes), MPI_BYTE, args.root, comm, r);
    else {
      auto& numbers = its.numbers();
      numbers.clear();
      const auto sends = parts(its, args, args.send_counts),
                 receives = K == kind::alltoall ? parts(its, args, args.receive_counts) : sends;
      const int *const counts = numbers.data() + sends, *const firsts = counts + p,
                       *const back = numbers.data() + receives;
      const bool at_root = its.rank() == args.root;
      std::byte *const in = args.in.base, *const out = args.out.base;
      const bool in_place = K == kind::scatter ? at_root && out == in + firsts[me]
                                               : (K == kind::allgather || at_root) && in == out + firsts[me];
      if constexpr (K == kind::allgather)
        return MPI_Iallgatherv(in_place ? MPI_IN_PLACE : in, counts[me], MPI_BYTE, out, counts, firsts, MPI_BYTE, comm,
                               r);
      else if constexpr (K == kind::gather)
        return MPI_Igatherv(in_place ? MPI_IN_PLACE : in, counts[me], MPI_BYTE, out, counts, firsts, MPI_BYTE,
                            args.root, comm, r);
      else if constexpr (K == kind::scatter)
        return MPI_Iscatterv(in, counts, firsts, MPI_BYTE, in_place ? MPI_IN_PLACE : out, counts[me], MPI_BYTE,
                             args.root, comm, r);
      else return MPI_Ialltoallv(in, counts, firsts, MPI_BYTE, out, back, back + p, MPI_BYTE, comm, r);
    }
  }
};

}  // namespace kolo::inline KOLO_ABI
