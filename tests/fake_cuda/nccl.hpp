// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A fake NCCL on the fake CUDA runtime: ranks are threads, calls are recorded, and data moves when the streams reach them.
#pragma once

#include "fake_cuda/nccl_groups.hpp"

#include <thread>

// Defines the functions that nccl.h declares, so a changed signature does not compile. Include it in one file of a program.
//
// It completes calls as late as NCCL may: a nonblocking call is in progress until all ranks that it needs have called, and only then it is enqueued; it runs
// when the streams of both sides have reached it, and moves the data at that moment. The calls of a group complete together with the groups that they match. A
// captured call is matched with no other rank's call: each launch of the graph makes the calls anew, enqueued at once, where they wait for the launches of the
// others. A launched call that matches one that was not captured ends the program; a communicator that ends before the graphs that refer to it (NCCL would
// hang) is `misuse`. Not modelled: times, and NCCL's behaviour for calls that do not match.

namespace nccl_double {

inline ncclResult_t state_of(const ncclComm* c) {
  return c->fault != ncclSuccess ? c->fault : is_in_progress(*c) ? ncclInProgress : ncclSuccess;
}

/// The result of a call: a blocking one waits until it is complete.
inline ncclResult_t end_of(ncclComm* c) {
  for (;;) {
    {
      const cuda_double::guard held{cuda_double::the.lock};
      if (!c->is_blocking || state_of(c) != ncclInProgress) return state_of(c);
    }
    std::this_thread::yield();
  }
}

inline void end(ncclComm* c) {
  --alive;
  if (c->graphs.use_count() > 1) misuse = "a communicator ended before the graphs that refer to it";
  if (cuda_double::captured) misuse = "a communicator ended within a capture";
}

inline ncclComm* begin(int device, bool is_blocking) {
  auto* const made = all.emplace_back(std::make_unique<ncclComm>()).get();
  made->device = device;
  made->is_blocking = is_blocking;
  made->is_splitting = true;
  ++alive;
  return made;
}
inline ncclComm* become(ncclComm* made, const std::shared_ptr<clique>& c, int rank) {
  made->ranks = c;
  made->rank = rank;
  if (std::exchange(stays_away, false)) return made;
  made->is_splitting = false;
  return c->members[static_cast<std::size_t>(rank)] = made;
}

inline void split_when_all_asked(clique& c, std::size_t number) {
  auto& asked = c.splits[number];
  if (asked.size() < static_cast<std::size_t>(c.size)) return;
  std::map<int, std::vector<int>> groups;
  for (const auto& [rank, a] : asked) groups[a.color].push_back(rank);
  for (auto& [color, ranks] : groups) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return asked[a].key < asked[b].key; });
    const auto part = std::make_shared<clique>();
    part->size = static_cast<int>(ranks.size());
    part->members.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      become(asked[ranks[i]].part, part, static_cast<int>(i));
      c.members[static_cast<std::size_t>(ranks[i])]->is_splitting = false;
    }
  }
}

inline ncclResult_t put(const char* call, op o) {
  const cuda_double::guard held{cuda_double::the.lock};
  if (!say(call)) return ncclInvalidUsage;
  const bool is_alone = depth == 0;
  if (!opened) opened = std::make_shared<group>();
  opened->comm = o.comm;
  opened->ops.push_back(std::make_unique<op>(std::move(o)));
  opened->ops.back()->of = opened.get();
  if (is_alone) end_group();
  return ncclSuccess;
}

}  // namespace nccl_double

extern "C" {

const char* ncclGetErrorString(ncclResult_t r) {
  return r == ncclRemoteError ? "remote process exited or there was a network error" : "invalid usage";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const cuda_double::guard held{cuda_double::the.lock};
  if (!nccl_double::say("ncclGetUniqueId")) return ncclSystemError;
  const auto number = ++nccl_double::ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  using namespace nccl_double;
  {
    const cuda_double::guard held{cuda_double::the.lock};
    if (!say("ncclCommInitRankConfig")) return ncclSystemError;
    std::uint64_t number = 0;
    std::memcpy(&number, id.internal, sizeof number);
    auto& c = cliques[number];
    if (!c) c = std::make_shared<clique>();
    c->size = size;
    c->members.resize(static_cast<std::size_t>(size));
    *comm = become(begin(cuda_double::device_of_thread, !config || config->blocking != 0), c, rank);
  }
  return end_of(*comm);
}
/// If nonblocking, returns success at once and writes `part` later: as NCCL does from a thread of its own, here when NCCL is queried.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  using namespace nccl_double;
  {
    const cuda_double::guard held{cuda_double::the.lock};
    if (!say("ncclCommSplit")) return ncclInvalidUsage;
    auto& splits = comm->ranks->splits;
    const auto number = comm->splits++;
    if (splits.size() <= number) splits.resize(number + 1);
    *part = nullptr;
    comm->made = begin(comm->device, comm->is_blocking);
    comm->made_to = comm->is_blocking ? nullptr : part;
    splits[number][comm->rank] = {color, key, comm->made};
    comm->is_splitting = true;
    split_when_all_asked(*comm->ranks, number);
  }
  if (!comm->is_blocking) return ncclSuccess;
  const auto r = end_of(comm);
  *part = comm->made;
  return r;
}
/// Completes when all ranks have called it.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  {
    const cuda_double::guard held{cuda_double::the.lock};
    if (!nccl_double::say("ncclCommFinalize")) return ncclInvalidUsage;
    comm->is_finalized = true;
  }
  return nccl_double::end_of(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const cuda_double::guard held{cuda_double::the.lock};
  nccl_double::say("ncclCommDestroy");
  if (!comm->is_blocking && !(comm->is_finalized && nccl_double::state_of(comm) == ncclSuccess))
    nccl_double::misuse = "a communicator was destroyed that others had not finalized";
  nccl_double::end(comm);
  ++nccl_double::destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const cuda_double::guard held{cuda_double::the.lock};
  nccl_double::say("ncclCommAbort");
  comm->is_aborted = true;
  comm->waiting.clear();                                                   // the program may destroy their streams
  if (comm->made_to) *std::exchange(comm->made_to, nullptr) = comm->made;  // NCCL's thread writes it first
  nccl_double::end(comm);
  ++nccl_double::aborted;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* now) {
  const cuda_double::guard held{cuda_double::the.lock};
  if (++comm->asked == comm->fault_after) comm->fault = ncclRemoteError;
  if (comm->made_to && !comm->is_splitting) *std::exchange(comm->made_to, nullptr) = comm->made;
  *now = nccl_double::state_of(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) { return *count = comm->ranks->size, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) { return *device = comm->device, ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) { return *rank = comm->rank, ncclSuccess; }

ncclResult_t ncclGroupStart() {
  if (!nccl_double::say("ncclGroupStart")) return ncclInvalidUsage;
  ++nccl_double::depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  using namespace nccl_double;
  ncclComm* comm = nullptr;
  {
    const cuda_double::guard held{cuda_double::the.lock};
    const bool is_good = say("ncclGroupEnd");
    if (--depth > 0) return ncclSuccess;
    if (!is_good) return opened.reset(), ncclInvalidUsage;
    if (opened) comm = opened->comm;
    end_group();
  }
  return comm ? end_of(comm) : ncclSuccess;
}

ncclResult_t ncclSend(const void* in, std::size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclSend", {nccl_double::what::send, in, nullptr, n, t, ncclSum, peer, c, s});
}
ncclResult_t ncclRecv(void* out, std::size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclRecv", {nccl_double::what::receive, nullptr, out, n, t, ncclSum, peer, c, s});
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t s) {
  return nccl_double::put("ncclAllReduce", {nccl_double::what::all_reduce, in, out, n, t, op, 0, c, s});
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, int root,
                        ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclReduce", {nccl_double::what::reduce, in, out, n, t, op, root, c, s});
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t n, ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t s) {
  return nccl_double::put("ncclBroadcast", {nccl_double::what::broadcast, in, out, n, t, ncclSum, root, c, s});
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclAllGather", {nccl_double::what::all_gather, in, out, n, t, ncclSum, 0, c, s});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t s) {
  return nccl_double::put("ncclReduceScatter", {nccl_double::what::reduce_scatter, in, out, n, t, op, 0, c, s});
}

}  // extern "C"
