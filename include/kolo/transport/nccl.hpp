// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo over NCCL: the communicator for device views, with NCCL's own collectives beside ours. Programs include nccl.cuh, which has the kernels as well.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/transport/nccl/transport.hpp>

namespace kolo::inline v0::nccl {

static_assert(Messaging<transport> && !Slotted<transport>);

/// `kolo::cuda::set_device(host.local_rank()); kolo::nccl::communicator comm{host};`, then all collectives of device views, with
/// `{.stream = stream}`; `comm.transport().wait({.stream = stream})` waits.
///
/// Where no algorithm is named, NCCL's own collective is taken if it has one: what moves parts (broadcast, allgather), and `sum product min max` of its
/// element types, `average` of those that are no integers, in allreduce, reduce and reduce_scatter. Everything else is a schedule of kolo's. The order in which
/// NCCL adds is its own: `kolo::ordered<kolo::order::fixed_for_size>(kolo::automatic{})` has the same bits in every run. `kolo::explain(comm, ...)` tells.
///
/// Plans, and requests that are restarted, become CUDA graphs; `plan.how()` tells. NCCL says of graphs: ranks that are threads of one process, and several
/// communicators whose graphs one thread launches, have been seen to deadlock in the driver; `{.graphs = false}` then.
using communicator = kolo::communicator<transport>;

}  // namespace kolo::inline v0::nccl

namespace kolo::inline v0::detail {

/// NCCL's collectives: of parts that differ as one group of calls, one a part. What only moves is bytes to NCCL.
template <>
struct native_of<nccl::transport> {
  static constexpr bool comes_first = true;
  static constexpr std::size_t most_bytes = SIZE_MAX;

  template <kind K, class T, class Op>
  static constexpr bool has() {
    if constexpr (K == kind::broadcast || K == kind::allgather) return true;
    else if constexpr (K == kind::allreduce || K == kind::reduce || K == kind::reduce_scatter)
      return type_of<T>() != ncclNumTypes && op_of<T, Op>() != ncclNumOps;
    else return false;
  }

  /// All can be taken. NCCL averages by itself, so nothing is left to do at the end.
  static const char* refusal(problem& job, int /*rank*/, int /*size*/) {
    job.compute.finishes = false;
    return nullptr;
  }

  template <kind K, class T, class Op>
  static constexpr auto start() {
    return [](void* self, const problem& job, void* /*ticket*/) {
      auto& wire = *static_cast<nccl::transport*>(self);
      wire.grouped(name_of(K), [&](ncclComm_t comm, cudaStream_t stream) {
        if constexpr (K == kind::broadcast || K == kind::allgather) return move<K>(wire, job, comm, stream);
        else return combine<K>(wire, job, type_of<T>(), op_of<T, Op>(), comm, stream);
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
  static ncclResult_t combine(nccl::transport& wire, const problem& job, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const std::byte* const in = job.in.base;
    std::byte* const out = job.out.base;
    if constexpr (K == kind::allreduce) return ncclAllReduce(in, out, job.count, type, op, comm, stream);
    else if constexpr (K == kind::reduce) return ncclReduce(in, out, job.count, type, op, job.root, comm, stream);
    else {
      const auto p = static_cast<std::size_t>(wire.size());
      if (job.count % p == 0) return ncclReduceScatter(in, out, job.count / p, type, op, comm, stream);
      ncclResult_t r = ncclSuccess;
      for (int q = 0; q < wire.size() && nccl::detail::is_fine(r); ++q) {
        const auto part = block(job.count, wire.size(), q);
        if (part.count > 0) r = ncclReduce(in + part.first * job.compute.element_bytes, out, part.count, type, op, q, comm, stream);
      }
      return r;
    }
  }

  template <kind K>
  static ncclResult_t move(nccl::transport& wire, const problem& job, ncclComm_t comm, cudaStream_t stream) {
    const auto bytes = job.count * job.compute.element_bytes;
    if constexpr (K == kind::broadcast) return ncclBroadcast(job.out.base, job.out.base, bytes, ncclUint8, job.root, comm, stream);
    else if (!job.send_counts) return ncclAllGather(job.in.base, job.out.base, bytes, ncclUint8, comm, stream);
    std::byte* to = job.out.base;
    ncclResult_t r = ncclSuccess;
    for (int q = 0; q < wire.size() && nccl::detail::is_fine(r); ++q) {
      const auto part = job.send_counts[q] * job.compute.element_bytes;
      if (part > 0) r = ncclBroadcast(q == wire.rank() ? job.in.base : to, to, part, ncclUint8, q, comm, stream);
      to += part;
    }
    return r;
  }
};

}  // namespace kolo::inline v0::detail
