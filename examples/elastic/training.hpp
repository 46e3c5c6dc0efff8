// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training loop of one rank, on a changing number of ranks.
#pragma once

#include "../digits/judging.hpp"
#include "../digits/outcome.hpp"
#include "state.hpp"

#include <kolo/train.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

namespace elastic {

struct outcome {
  int ranks = 0;
  double accuracy = 0;
  std::uint64_t digest = 0;  // of the bits of all tensors of a checkpoint (FNV-1a)
};

inline std::uint64_t digest_of(state& s) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const auto& t : s.all())
    for (const std::byte b : std::as_bytes(t.value)) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return h;
}

/// The remaining batches of an epoch.
struct rest_of {
  const digits::batches& all;
  std::size_t learned;
  std::size_t size() const { return all.size() - learned; }
  const digits::batch& operator[](std::size_t i) const { return all[learned + i]; }
};

inline int steps_of_epoch(const digits::dataset& data) { return int(data.size() / batch_of_leaf / leaves); }

/// The learning rate after `batches` of `total` batches: a warm-up, then a decay to almost 0.
inline float learning_rate(float batches, std::size_t total) {
  const int steps = int(total) / leaves, warm = steps / 10;
  return kolo::warm_up{0.01f, warm, kolo::polynomial_decay{0.1f, 1e-5f, steps - warm}}(int(batches) / leaves);
}

/// Trains from state `s` to the end and returns true; or, with may_join, to step join_at if ranks are missing, and returns false. The victim kills itself with
/// SIGKILL in step kill_at.
template <class Comm>
bool train(Comm& comm, state& s, const settings& o, const digits::dataset& data, bool is_victim, bool may_join) {
  kolo::distributed_optimizer optimizer{comm, sgd{&s.velocities}, s.model.parameters(), {.leaves = leaves}};
  const std::size_t of_epoch = std::size_t(steps_of_epoch(data) * leaves), total = of_epoch * std::size_t(o.epochs);
  int step = 0;
  for (auto epoch = std::size_t(s.batches) / of_epoch; epoch < std::size_t(o.epochs); ++epoch) {
    const digits::batches shuffled{data, batch_of_leaf, o.seed + epoch};
    const rest_of rest{shuffled, std::size_t(s.batches) - epoch * of_epoch};
    for (const auto& b : kolo::shard(rest, comm, kolo::leaves{leaves})) {
      s.model.backward(b);
      if (is_victim && step == o.kill_at) std::raise(SIGKILL);
      optimizer.inner().rate = learning_rate(s.batches, total);
      if (!optimizer.step()) continue;
      s.batches += leaves;
      if (++step % o.save_every == 0) kolo::on_root(comm, [&] { kolo::save_checkpoint(o.checkpoint, s.all()); });
      if (may_join && comm.size() < o.ranks && int(s.batches) / leaves == o.join_at) return false;
    }
  }
  kolo::barrier(comm);
  return true;
}

/// Prints what has happened, and where the training continues.
template <class Comm>
void report(const Comm& comm, int ranks_before, const char* what, const state& s) {
  std::printf("%s\n%d processes (before: %d) continue after image %.0f, with %zu images per step as before.\n", what,
              comm.size(), ranks_before, double(s.batches) * batch_of_leaf, leaves * batch_of_leaf);
  std::fflush(stdout);
}

/// Grows the communicator by the missing ranks; returns false, and leaves it as it is, if they do not join in time.
template <class Comm>
bool let_join(Comm& comm, const settings& o, const state& s) {
  const int before = comm.size();
  try {
    comm = comm.grow(o.meeting, {.timeout = std::chrono::seconds{20}, .newcomers = o.ranks - before});
  } catch (const kolo::error& e) {
    if (comm.failed() != nullptr) throw;  // a present rank failed
    kolo::on_root(comm, [&] { report(comm, before, e.what(), s); });
    return false;
  }
  kolo::on_root(comm, [&] { report(comm, before, "A new process has joined; rank 0 broadcasts the state to it.", s); });
  return true;
}

/// Starts from the checkpoint, or, on a process that has joined, from the others' state. If ranks die, the survivors
/// restart from the checkpoint. (If another rank dies during that restart, the training ends.)
template <class Comm>
void train_on_present_ranks(Comm& comm, bool has_joined, const settings& o, const digits::split& data, outcome& out) {
  const bool is_victim = !has_joined && comm.rank() == o.kill_rank;
  state s{o.seed, kolo::shm::allocator<float>{comm}};
  bool is_at_checkpoint = !has_joined, may_join = true;
  for (int before = comm.size();;) try {
      if (is_at_checkpoint) kolo::restore_checkpoint(comm, o.checkpoint, s.all());
      else kolo::broadcast_parameters(comm, s.all());
      if (train(comm, s, o, data.train, is_victim, may_join)) break;
      may_join = let_join(comm, o, s);
      is_at_checkpoint = false;
    } catch (const kolo::error& e) {
      if (comm.failed() == nullptr) throw;  // no rank failed: reading or writing the checkpoint did
      before = comm.size();
      comm = comm.shrink({.timeout = std::chrono::seconds{20}});
      is_at_checkpoint = true;
      kolo::on_root(comm, [&] {
        kolo::load_checkpoint(o.checkpoint, s.all());
        report(comm, before, e.what(), s);
      });
    }
  const double accuracy = digits::accuracy(comm, s.model, data.test);
  kolo::on_root(comm, [&] { out = {comm.size(), accuracy, digest_of(s)}; });
}

}  // namespace elastic
