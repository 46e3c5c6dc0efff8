// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When the fake NCCL enqueues the calls of a group, and when they run.
#pragma once

#include "fake_cuda/nccl_calls.hpp"

#include <cstdio>

namespace nccl_double {

inline std::vector<op*> sides_of(op& o) {
  if (o.kind == what::send || o.kind == what::receive) return {&o, o.others[0]};
  return o.others;
}

/// The stream has reached the group: the peers' streams are run up to it, and then the operations.
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

/// Collects all groups that are connected with one by matching calls; false if one of them has an unmatched call.
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
    one->before = one->stream->put;
    cuda_double::the.put(*one->stream, [kept = *at] { run(*kept); });
    waiting.erase(at);
  }
}

/// Both were captured, or neither; otherwise they would deadlock.
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

/// Launches a captured group.
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
  g->stream = cuda_double::the.streams.at(g->ops.front()->stream);  // here: a null name is the caller's device's
  if (const auto capture = g->stream->capture)
    return capture->nodes.push_back([g, reference = g->comm->graphs](cudaStream_t to) { launch(*g, to); });
  g->comm->waiting.push_back(g);
  g->comm->ranks->kept.push_back(g);
  for (auto& o : g->ops) answer(o.get());
  put_when_answered(g.get());
}

}  // namespace nccl_double
