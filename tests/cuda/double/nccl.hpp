// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A double of NCCL on the double of the CUDA runtime: ranks are threads, calls are recorded, and data moves when a stream comes to them.
#pragma once

#include "cuda/double/nccl_graphs.hpp"

#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

// It defines the functions that nccl.h declares, so one that has another signature does not compile. One file of a program includes it.
//
// What it stands for, as late as NCCL may be: a call that is not blocking is in progress until all ranks that it needs have made theirs, and only
// then it is on the streams; there it happens when both sides' streams have come to it, and data moves in that moment. What a group holds must
// be answered by the groups of others as a whole. What a stream captures is asked of nobody: each launch of the graph makes the calls anew, on the stream at
// once, where they wait for the launches of the others. Launched calls that meet others end the program; a communicator that ends before the
// graphs that refer to it (NCCL would wait for ever), is `misuse`. What it does not: how long things take, and what NCCL does with calls that do not match.
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
  std::vector<op*> others{};  ///< by rank for collectives, else the other side; empty: not there yet
  bool is_done = false;
};
/// What was said between ncclGroupStart and ncclGroupEnd.
struct group {
  std::vector<std::unique_ptr<op>> ops;
  ncclComm* comm = nullptr;
  std::shared_ptr<cuda_double::stream_state> stream;
  std::uint64_t before = 0;  ///< operations that are on its stream before it
  bool is_launched = false;  ///< by a graph
};
/// Ranks that were made communicators together.
struct clique {
  int size = 0;
  std::vector<ncclComm*> members;  ///< null: has not come yet
  std::map<std::pair<int, int>, std::deque<op*>> sends, receives;  ///< not answered; from, to
  std::vector<std::vector<op*>> collectives;                       ///< by number, then by rank
  struct asked {
    int color, key;
    ncclComm** into;
  };
  std::vector<std::map<int, asked>> splits;  ///< by number, then by rank
  std::vector<std::shared_ptr<group>> kept;  ///< others refer to them
};

}  // namespace nccl_double

struct ncclComm {
  std::shared_ptr<nccl_double::clique> ranks;
  int rank = 0, device = 0;
  bool is_blocking = true, is_aborted = false;
  ncclResult_t fault = ncclSuccess;  ///< what goes wrong by itself
  std::size_t collectives = 0, splits = 0;
  bool is_splitting = false;
  int asked = 0, fault_after = 0;                                    ///< so many times how it is; 0, or when the fault is there
  std::shared_ptr<int> graphs = std::make_shared<int>();             ///< shared by those that refer to it
  std::vector<std::shared_ptr<nccl_double::group>> waiting;  ///< not on a stream yet
};

namespace nccl_double {

inline std::map<std::uint64_t, std::shared_ptr<clique>> cliques;
inline std::vector<std::unique_ptr<ncclComm>> all;  ///< also those that are gone
inline std::uint64_t ids = 0;
inline int alive = 0, destroyed = 0, aborted = 0;
inline thread_local int depth = 0;
inline thread_local std::shared_ptr<group> opened;
inline thread_local std::vector<std::string> calls;     ///< of this thread
inline thread_local std::string fails;                  ///< the call that fails next
inline thread_local bool stays_away = false;            ///< this thread's next communicator never comes to be
inline std::string misuse;

/// When nobody is left.
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
  const auto& m = c.ranks->members;
  return std::count(m.begin(), m.end(), nullptr) > 0 || c.is_splitting || !c.waiting.empty();
}

inline std::size_t bytes_of(ncclDataType_t t) {
  switch (t) {
    case ncclInt8: case ncclUint8: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
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
        case ncclSum: case ncclAvg: x = static_cast<A>(x + y); break;
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

/// All sides of an operation at once, so that nobody writes what another has still to read: results first, then their places.
inline void happen(const std::vector<op*>& sides) {
  std::vector<std::vector<char>> results;
  for (op* o : sides) {
    const auto unit = bytes_of(o->type);
    const std::size_t p = o->others.size();
    const int rank = o->comm->rank;
    auto& r = results.emplace_back();
    const auto take = [&](const op& from) { r.insert(r.end(), static_cast<const char*>(from.in), static_cast<const char*>(from.in) + from.count * unit); };
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

inline std::vector<op*> sides_of(op& o) {
  if (o.kind == what::send || o.kind == what::receive) return {&o, o.others[0]};
  return o.others;
}

/// The stream has come to the group: the others' come there too, and then it happens.
inline void run(group& g) {
  if (g.comm->is_aborted) return;
  for (auto& o : g.ops) {
    if (o->is_done) continue;
    if (o->others.empty()) throw cuda_double::not_yet{};
    const auto sides = sides_of(*o);
    if (std::any_of(sides.begin(), sides.end(), [](const op* s) { return s->comm->is_aborted; })) continue;
    for (op* s : sides)
      if (s->of != &g) cuda_double::the.run_to(*s->of->stream, s->of->before);
    if (!o->is_done) happen(sides);
  }
}

/// All groups that hang together with one, or none where one of them still misses an answer.
inline bool collect(group* g, std::vector<group*>& found) {
  if (std::find(found.begin(), found.end(), g) != found.end()) return true;
  found.push_back(g);
  for (const auto& o : g->ops) {
    if (o->others.empty()) return false;
    for (op* s : o->others)
      if (!s || !collect(s->of, found)) return false;
  }
  return true;
}

inline void put_when_answered(group* g) {
  std::vector<group*> together;
  if (!collect(g, together)) return;
  for (group* one : together) {
    auto& waiting = one->comm->waiting;
    const auto at = std::find_if(waiting.begin(), waiting.end(), [&](const auto& w) { return w.get() == one; });
    if (at == waiting.end()) continue;
    const auto stream = one->ops.front()->stream;
    one->stream = cuda_double::the.streams.at(stream);
    one->before = one->stream->put;
    cuda_double::the.put(stream, [kept = *at] { run(*kept); });
    waiting.erase(at);
  }
}

/// They were made in the same way, or else nothing can go on.
inline void meet(const op& a, const op& b) {
  if (a.of->is_launched == b.of->is_launched) return;
  std::fputs("a call that was captured meets one that was not\n", stderr);
  std::_Exit(3);
}

inline void answer(op* o) {
  clique& c = *o->comm->ranks;
  const int me = o->comm->rank;
  if (o->kind != what::send && o->kind != what::receive) {
    const auto number = o->comm->collectives++;
    if (c.collectives.size() <= number) c.collectives.resize(number + 1);
    auto& sides = c.collectives[number];
    sides.resize(static_cast<std::size_t>(c.size));
    sides[static_cast<std::size_t>(me)] = o;
    if (std::count(sides.begin(), sides.end(), nullptr) == 0)
      for (op* s : sides) meet(*s, *o), s->others = sides;
    return;
  }
  const bool is_send = o->kind == what::send;
  auto& theirs = is_send ? c.receives[{me, o->peer}] : c.sends[{o->peer, me}];
  if (theirs.empty()) return (is_send ? c.sends[{me, o->peer}] : c.receives[{o->peer, me}]).push_back(o);
  meet(*o, *theirs.front());
  o->others = {theirs.front()};
  theirs.front()->others = {o};
  theirs.pop_front();
}

/// A graph is launched that has captured the group.
inline void launch(const group& captured, cudaStream_t stream) {
  const auto g = std::make_shared<group>();
  g->comm = captured.comm;
  g->is_launched = true;
  for (const auto& o : captured.ops) {
    g->ops.push_back(std::make_unique<op>(*o));
    g->ops.back()->of = g.get();
    g->ops.back()->stream = stream;
  }
  g->stream = cuda_double::the.streams.at(stream);
  g->before = g->stream->put;
  g->comm->ranks->kept.push_back(g);
  for (auto& o : g->ops) answer(o.get());
  cuda_double::the.put(stream, [g] { run(*g); });
}

inline void end_group() {
  const auto g = std::exchange(opened, nullptr);
  if (!g || g->ops.empty()) return;
  if (const auto capture = cuda_double::the.streams.at(g->ops.front()->stream)->capture)
    return capture->nodes.push_back([g, reference = g->comm->graphs](cudaStream_t to) { launch(*g, to); });
  g->comm->waiting.push_back(g);
  g->comm->ranks->kept.push_back(g);
  for (auto& o : g->ops) answer(o.get());
  put_when_answered(g.get());
}

inline ncclResult_t state_of(const ncclComm* c) { return c->fault != ncclSuccess ? c->fault : is_in_progress(*c) ? ncclInProgress : ncclSuccess; }

/// What a call returns that asked for something: a blocking one when it is there.
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

inline ncclComm* make(const std::shared_ptr<clique>& c, int rank, bool is_blocking) {
  auto* const made = all.emplace_back(std::make_unique<ncclComm>()).get();
  made->ranks = c;
  made->rank = rank;
  made->device = cuda_double::device_of_thread;
  made->is_blocking = is_blocking;
  ++alive;
  if (std::exchange(stays_away, false)) return made->is_splitting = true, made;
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
      ncclComm* const parent = c.members[static_cast<std::size_t>(ranks[i])];
      *asked[ranks[i]].into = make(part, static_cast<int>(i), parent->is_blocking);
      part->members[i]->device = parent->device;
      parent->is_splitting = false;
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

const char* ncclGetErrorString(ncclResult_t r) { return r == ncclRemoteError ? "remote process exited or there was a network error" : "invalid usage"; }
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
    *comm = make(c, rank, !config || config->blocking != 0);
  }
  return end_of(*comm);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  using namespace nccl_double;
  {
    const cuda_double::guard held{cuda_double::the.lock};
    if (!say("ncclCommSplit")) return ncclInvalidUsage;
    auto& splits = comm->ranks->splits;
    const auto number = comm->splits++;
    if (splits.size() <= number) splits.resize(number + 1);
    splits[number][comm->rank] = {color, key, part};
    comm->is_splitting = true;
    split_when_all_asked(*comm->ranks, number);
  }
  return end_of(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const cuda_double::guard held{cuda_double::the.lock};
  nccl_double::say("ncclCommDestroy");
  nccl_double::end(comm);
  ++nccl_double::destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const cuda_double::guard held{cuda_double::the.lock};
  nccl_double::say("ncclCommAbort");
  comm->is_aborted = true;
  nccl_double::end(comm);
  ++nccl_double::aborted;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* now) {
  const cuda_double::guard held{cuda_double::the.lock};
  if (++comm->asked == comm->fault_after) comm->fault = ncclRemoteError;
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
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclAllReduce", {nccl_double::what::all_reduce, in, out, n, t, op, 0, c, s});
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclReduce", {nccl_double::what::reduce, in, out, n, t, op, root, c, s});
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclBroadcast", {nccl_double::what::broadcast, in, out, n, t, ncclSum, root, c, s});
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclAllGather", {nccl_double::what::all_gather, in, out, n, t, ncclSum, 0, c, s});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  return nccl_double::put("ncclReduceScatter", {nccl_double::what::reduce_scatter, in, out, n, t, op, 0, c, s});
}

}  // extern "C"
