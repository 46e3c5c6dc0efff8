// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over NCCL: the communicator for device views, which also runs NCCL's own collectives. Programs include nccl.cuh,
// which adds the kernels.
#pragma once

#include <kolo/cuda/nccl/transport.hpp>
#include <kolo/kolo.hpp>

namespace kolo::inline KOLO_ABI::nccl {

static_assert(MessageTransport<transport> && !SlotTransport<transport>);

/// `kolo::cuda::set_device(host.local_rank()); kolo::nccl::communicator comm{host};`, then all collectives of device
/// views, with `{.stream = stream}`; `comm.transport().wait({.stream = stream})` waits.
///
/// Without a named algorithm, NCCL's own collective runs if it has one: broadcast and allgather; and allreduce, reduce
/// and reduce_scatter with `sum product` of its element types, `min max` of integers, `average` of the others.
/// Everything else runs as a schedule of kolo's. The order in which NCCL adds is its own:
/// `kolo::ordered<kolo::order::fixed_for_size>(kolo::automatic{})` has the same bits in every run. `kolo::explain(comm,
/// ...)` shows the choice.
///
/// Plans, and requests that are restarted, become CUDA graphs; `plan.how()` describes them. NCCL warns that graphs have
/// been seen to deadlock in the driver where ranks are threads of one process, or one thread launches graphs of several
/// communicators; use `{.graphs = false}` then.
using communicator = kolo::communicator<transport>;

}  // namespace kolo::inline KOLO_ABI::nccl

namespace kolo::inline KOLO_ABI {

/// NCCL's collectives: unequal parts as one group of calls, one per part. Where nothing is combined, elements are bytes
/// to NCCL.
template <>
struct native_of<nccl::transport> {
  static constexpr bool finishes = true;  ///< NCCL averages by itself
  static constexpr bool comes_first = true;
  static constexpr std::size_t most_bytes = SIZE_MAX;

  template <kind K, class T, class Op>
  static constexpr bool has() {
    if constexpr (K == kind::broadcast || K == kind::allgather) return true;
    else if constexpr (K == kind::allreduce || K == kind::reduce || K == kind::reduce_scatter)
      return type_of<T>() != ncclNumTypes && op_of<T, Op>() != ncclNumOps;
    else return false;
  }

  template <kind K, class T, class Op>
  static constexpr auto start() {
    return [](void* self, const collective_args& args, void* /*ticket*/) {
      auto& its = *static_cast<nccl::transport*>(self);
      its.grouped(name_of(K), [&](ncclComm_t comm, cudaStream_t stream) {
        if constexpr (K == kind::broadcast || K == kind::allgather) return move<K>(its, args, comm, stream);
        else return combine<K>(its, args, type_of<T>(), op_of<T, Op>(), comm, stream);
      });
    };
  }

 private:
  static constexpr const char* name_of(kind k) {
    switch (k) {
      case kind::allreduce: return "ncclAllReduce";
      case kind::reduce: return "ncclReduce";
      case kind::broadcast: return "ncclBroadcast";
      case kind::allgather: return "ncclAllGather";
      default: return "ncclReduceScatter";
    }
  }
  template <class T>
  static constexpr ncclDataType_t type_of() {
    if constexpr (std::same_as<T, float>) return ncclFloat32;
    else if constexpr (std::same_as<T, double>) return ncclFloat64;
    else if constexpr (std::same_as<T, float16>) return ncclFloat16;
    else if constexpr (std::same_as<T, bfloat16>) return ncclBfloat16;
    else if constexpr (!std::integral<T> || std::same_as<T, bool>) return ncclNumTypes;
    else if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? ncclInt8 : ncclUint8;
    else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? ncclInt32 : ncclUint32;
    else if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? ncclInt64 : ncclUint64;
    else return ncclNumTypes;
  }
  template <class T, class Op>
  static constexpr ncclRedOp_t op_of() {
    if constexpr (std::same_as<Op, sum_t>) return ncclSum;
    else if constexpr (std::same_as<Op, product_t>) return ncclProd;
    else if constexpr (std::same_as<Op, min_t>) return ncclMin;
    else if constexpr (std::same_as<Op, max_t>) return ncclMax;
    else if constexpr (std::same_as<Op, average_t> && !std::integral<T>) return ncclAvg;
    else return ncclNumOps;
  }

  template <kind K>
  static ncclResult_t combine(nccl::transport& its, const collective_args& args, ncclDataType_t type, ncclRedOp_t op,
                              ncclComm_t comm, cudaStream_t stream) {
    const std::byte* const in = args.in.base;
    std::byte* const out = args.out.base;
    if constexpr (K == kind::allreduce) return ncclAllReduce(in, out, args.count, type, op, comm, stream);
    else if constexpr (K == kind::reduce) return ncclReduce(in, out, args.count, type, op, args.root, comm, stream);
    else {
      const auto p = std::size_t(its.size());
      if (!args.send_counts && args.count % p == 0)
        return ncclReduceScatter(in, out, args.count / p, type, op, comm, stream);
      ncclResult_t r = ncclSuccess;
      std::size_t first = 0;
      for (int q = 0; q < its.size() && detail::cuda::is_fine(r); ++q) {
        const auto n = args.send_counts ? args.send_counts[q] : block(args.count, its.size(), q).count;
        if (n > 0) r = ncclReduce(in + first * args.compute.element_bytes, out, n, type, op, q, comm, stream);
        first += n;
      }
      return r;
    }
  }

  template <kind K>
  static ncclResult_t move(nccl::transport& its, const collective_args& args, ncclComm_t comm, cudaStream_t stream) {
    const auto bytes = args.count * args.compute.element_bytes;
    if constexpr (K == kind::broadcast)
      return ncclBroadcast(args.out.base, args.out.base, bytes, ncclUint8, args.root, comm, stream);
    else if (!args.send_counts) return ncclAllGather(args.in.base, args.out.base, bytes, ncclUint8, comm, stream);
    std::byte* to = args.out.base;
    ncclResult_t r = ncclSuccess;
    for (int q = 0; q < its.size() && detail::cuda::is_fine(r); ++q) {
      const auto part = args.send_counts[q] * args.compute.element_bytes;
      if (part > 0) r = ncclBroadcast(q == its.rank() ? args.in.base : to, to, part, ncclUint8, q, comm, stream);
      to += part;
    }
    return r;
  }
};

}  // namespace kolo::inline KOLO_ABI
