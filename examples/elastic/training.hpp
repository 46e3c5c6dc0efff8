// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training of one rank, on as many ranks as there are.
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
  float resumed_at = 0;  // batches that had been learned then
  double accuracy = 0;
  std::uint64_t digest = 0;  // of the bits of all that a checkpoint holds (FNV-1a)
};

inline std::uint64_t digest_of(state& s) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const auto& t : s.all())
    for (const std::byte b : std::as_bytes(t.value)) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return h;
}

/// The batches of an epoch that have not been learned yet.
struct rest_of {
  const digits::batches& all;
  std::size_t learned;
  std::size_t size() const { return all.size() - learned; }
  const digits::batch& operator[](std::size_t i) const { return all[learned + i]; }
};

/// Of so many ranks after so many of `total` batches: a warm-up, then down to almost nothing; more images a step bear a larger rate.
inline float learning_rate(int ranks, float batches, std::size_t total) {
  const int steps = int(total) / ranks, warm = steps / 10;
  const float peak = 0.025f * float(ranks);
  return kolo::warm_up{peak / 10, warm, kolo::polynomial_decay{peak, 1e-5f, steps - warm}}(int(batches) / ranks);
}

/// From where `s` stands to the end. The rank `victim` ends by SIGKILL in the step that the settings name.
template <class Comm>
void train(Comm& comm, state& s, const settings& o, const digits::dataset& data, bool is_victim) {
  kolo::distributed_optimizer optimizer{comm, sgd{&s.velocities}, s.model.parameters()};
  const std::size_t of_epoch = data.size() / batch_of_rank, total = of_epoch * std::size_t(o.epochs);
  int step = 0;
  for (auto epoch = std::size_t(s.batches) / of_epoch; epoch < std::size_t(o.epochs); ++epoch) {
    const digits::batches shuffled{data, batch_of_rank, o.seed + epoch};
    for (const auto& b : kolo::shard(rest_of{shuffled, std::size_t(s.batches) - epoch * of_epoch}, comm)) {
      s.model.backward(b);
      if (is_victim && step == o.kill_at) std::raise(SIGKILL);
      optimizer.inner().rate = learning_rate(comm.size(), s.batches, total);
      optimizer.step();
      s.batches += float(comm.size());
      if (++step % o.save_every == 0) kolo::on_root(comm, [&] { kolo::save_checkpoint(o.checkpoint, s.all()); });
    }
    s.batches = float((epoch + 1) * of_epoch);
  }
  kolo::barrier(comm);
}

/// Says what has happened, and where it goes on.
template <class Comm>
void report(const Comm& comm, int ranks_before, const kolo::error& e, const state& s, std::size_t total) {
  std::printf(
      "%s\n%d of %d processes go on after %.0f images: %zu images a step instead of %zu, a learning rate of %.4f "
      "instead of %.4f.\n",
      e.what(), comm.size(), ranks_before, double(s.batches) * batch_of_rank, std::size_t(comm.size()) * batch_of_rank,
      std::size_t(ranks_before) * batch_of_rank, double(learning_rate(comm.size(), s.batches, total)),
      double(learning_rate(ranks_before, s.batches, total)));
  std::fflush(stdout);
}

/// Begins at the checkpoint; where ranks are lost, those that are left begin there again. (One loss at a time: another one while they do ends it.)
template <class Comm>
void train_on_those_left(Comm& comm, const settings& o, const digits::split& data, outcome& out) {
  const bool is_victim = comm.rank() == o.kill_rank;
  const std::size_t total = data.train.size() / batch_of_rank * std::size_t(o.epochs);
  state s{o.seed, kolo::shm::allocator<float>{comm}};
  for (int before = comm.size();;) try {
      kolo::restore_checkpoint(comm, o.checkpoint, s.all());
      kolo::on_root(comm, [&] { out.resumed_at = s.batches; });
      train(comm, s, o, data.train, is_victim);
      break;
    } catch (const kolo::error& e) {
      if (comm.transport().failed() == nullptr)
        throw;  // nobody was lost: the checkpoint cannot be read, or not written
      before = comm.size();
      comm = comm.shrink({.timeout = std::chrono::seconds{20}});
      kolo::on_root(comm, [&] {
        kolo::load_checkpoint(o.checkpoint, s.all());
        kolo::save_checkpoint(o.checkpoint + ".resumed", s.all());
        report(comm, before, e, s, total);
      });
    }
  const double accuracy = digits::accuracy(comm, s.model, data.test);
  kolo::on_root(comm, [&] { out = {comm.size(), out.resumed_at, accuracy, digest_of(s)}; });
}

}  // namespace elastic
