// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of the fake NCCL: communicators, their operations, and how those move data.
#pragma once

#include "fake_cuda/nccl_graphs.hpp"

#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <nccl.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

struct ncclComm;

namespace nccl_double {

enum class what { send, receive, all_reduce, reduce, broadcast, all_gather, reduce_scatter };

struct group;
struct op {
  what kind;
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t red;
  int peer;  ///< or root
  ncclComm* comm;
  cudaStream_t stream;
  group* of = nullptr;
  std::vector<op*> others{};  ///< by rank for collectives, else the other side; empty: not matched yet
  bool is_done = false;
};
/// The calls between ncclGroupStart and ncclGroupEnd.
struct group {
  std::vector<std::unique_ptr<op>> ops;
  ncclComm* comm = nullptr;
  std::shared_ptr<cuda_double::stream_state> stream;
  std::uint64_t before = 0;  ///< operations on its stream before it
  bool is_launched = false;  ///< by a graph
};
/// The ranks of one ncclCommInitRank or ncclCommSplit.
struct clique {
  int size = 0;
  std::vector<ncclComm*> members;                                  ///< null: has not called yet
  std::map<std::pair<int, int>, std::deque<op*>> sends, receives;  ///< not matched; from, to
  std::vector<std::vector<op*>> collectives;                       ///< by number, then by rank
  struct asked {
    int color, key;
    ncclComm* part;
  };
  std::vector<std::map<int, asked>> splits;  ///< by number, then by rank
  std::vector<std::shared_ptr<group>> kept;  ///< other groups refer to them
};

}  // namespace nccl_double

struct ncclComm {
  std::shared_ptr<nccl_double::clique> ranks;
  int rank = 0, device = 0;
  bool is_blocking = true, is_aborted = false, is_finalized = false;
  ncclResult_t fault = ncclSuccess;  ///< the asynchronous error
  std::size_t collectives = 0, splits = 0;
  bool is_splitting = false;
  ncclComm *made = nullptr, **made_to = nullptr;  ///< a split in progress, and where its handle is written
  int asked = 0, fault_after = 0;                 ///< queries of its state; the query that sets the fault, 0: none
  std::shared_ptr<int> graphs = std::make_shared<int>();     ///< shared by the graphs that refer to it
  std::vector<std::shared_ptr<nccl_double::group>> waiting;  ///< not enqueued yet
};

namespace nccl_double {

inline std::map<std::uint64_t, std::shared_ptr<clique>> cliques;
inline std::vector<std::unique_ptr<ncclComm>> all;  ///< also destroyed ones
inline std::uint64_t ids = 0;
inline int alive = 0, destroyed = 0, aborted = 0;
inline thread_local int depth = 0;
inline thread_local std::shared_ptr<group> opened;
inline thread_local std::vector<std::string> calls;  ///< of this thread
inline thread_local std::string fails;               ///< the call that fails next
inline thread_local bool stays_away = false;         ///< this thread's next communicator is never complete
inline std::string misuse;

/// When no thread uses it.
inline void reset() {
  cliques.clear();
  all.clear();
  alive = destroyed = aborted = 0;
  misuse.clear();
}

inline bool say(const char* call) {
  calls.emplace_back(call);
  if (fails != call) return true;
  fails.clear();
  return false;
}

inline bool is_in_progress(const ncclComm& c) {
  if (c.is_splitting || !c.waiting.empty()) return true;  // a split that is not complete has no ranks yet
  const auto& m = c.ranks->members;
  return std::any_of(m.begin(), m.end(), [&](const ncclComm* o) { return !o || (c.is_finalized && !o->is_finalized); });
}

inline std::size_t bytes_of(ncclDataType_t t) {
  switch (t) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

template <class T>
void combine_as(const op& mine, std::size_t first, std::size_t count, void* out) {
  using A = std::conditional_t<std::is_class_v<T>, float, T>;
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    A x{};
    for (std::size_t r = 0; r < mine.others.size(); ++r) {
      const A y = static_cast<A>(static_cast<const T*>(mine.others[r]->in)[first + i]);
      switch (r == 0 ? ncclNumOps : mine.red) {
        case ncclSum:
        case ncclAvg: x = static_cast<A>(x + y); break;
        case ncclProd: x = static_cast<A>(x * y); break;
        case ncclMin: x = std::min(x, y); break;
        case ncclMax: x = std::max(x, y); break;
        default: x = y;
      }
    }
    if (mine.red == ncclAvg) x = static_cast<A>(x / static_cast<A>(static_cast<int>(mine.others.size())));
    result[i] = static_cast<T>(x);
  }
  std::memcpy(out, result.data(), count * sizeof(T));
}
inline void combine(const op& mine, std::size_t first, std::size_t count, void* out) {
  switch (mine.type) {
    case ncclInt8: return combine_as<std::int8_t>(mine, first, count, out);
    case ncclUint8: return combine_as<std::uint8_t>(mine, first, count, out);
    case ncclInt32: return combine_as<std::int32_t>(mine, first, count, out);
    case ncclUint32: return combine_as<std::uint32_t>(mine, first, count, out);
    case ncclInt64: return combine_as<std::int64_t>(mine, first, count, out);
    case ncclUint64: return combine_as<std::uint64_t>(mine, first, count, out);
    case ncclFloat16: return combine_as<kolo::float16>(mine, first, count, out);
    case ncclBfloat16: return combine_as<kolo::bfloat16>(mine, first, count, out);
    case ncclFloat32: return combine_as<float>(mine, first, count, out);
    case ncclFloat64: return combine_as<double>(mine, first, count, out);
    default: std::abort();
  }
}

/// Runs all sides of an operation at once: first all results, then the writes, so that no side overwrites another's input.
inline void happen(const std::vector<op*>& sides) {
  std::vector<std::vector<char>> results;
  for (op* o : sides) {
    const auto unit = bytes_of(o->type);
    const std::size_t p = o->others.size();
    const int rank = o->comm->rank;
    auto& r = results.emplace_back();
    const auto take = [&](const op& from) {
      r.insert(r.end(), static_cast<const char*>(from.in), static_cast<const char*>(from.in) + from.count * unit);
    };
    switch (o->kind) {
      case what::send: break;
      case what::receive: take(*o->others[0]); break;
      case what::broadcast: take(*o->others[static_cast<std::size_t>(o->peer)]); break;
      case what::all_gather:
        for (std::size_t q = 0; q < p; ++q) take(*o->others[q]);
        break;
      case what::reduce:
        if (rank != o->peer) break;
        [[fallthrough]];
      case what::all_reduce:
        r.resize(o->count * unit);
        combine(*o, 0, o->count, r.data());
        break;
      case what::reduce_scatter:
        r.resize(o->count * unit);
        combine(*o, static_cast<std::size_t>(rank) * o->count, o->count, r.data());
    }
  }
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (!results[i].empty()) std::memcpy(sides[i]->out, results[i].data(), results[i].size());
    sides[i]->is_done = true;
  }
}

}  // namespace nccl_double
