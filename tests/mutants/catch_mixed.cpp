// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes where parameters differ: element types, rows, local ones, tiny ones, and ranks that join.
// built with others: ranks
#include <kolo/launch/threads.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/sharded_checkpoint.hpp>
#include <kolo/train/state.hpp>

#include "support/scratch.hpp"
#include "train/assorted.hpp"

using namespace testing;

namespace {

tally t;

/// Rank 1 has one batch more.
template <class Comm, class Optimizer>
void joined(Comm& comm, Optimizer& optimizer, assorted& mine) {
  assorted reference;
  alone all;
  for (int step = 0; step <= comm.rank(); ++step)
    mine.set(comm.rank(), comm.rank() + 1, step, 1, comm.rank()), optimizer.step();
  optimizer.join();
  for (int step = 0; step < 2; ++step)
    reference.set(step, 2, step, 2 - step, comm.rank()), all.step(reference, step <= comm.rank());
  t.expect(mine.is(reference));
}

template <class Comm>
void tiny(Comm& comm) {
  model mine{{5, 7, 1}}, reference{{5, 7, 1}};
  kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters()};
  t.expect(optimizer.buckets().buckets[0].is_packed);
  mine.set_gradients(comm.rank(), 0), optimizer.step();
  reference.set_sums(0, 2, 0, 2), step_alone(optimizer.inner(), reference);
  t.expect(mine.values == reference.values);
}

}  // namespace

int main() {
  const kolo::detail::train::planned_tensor two_types[] = {{10, 4, 0}, {10, 8, 1}};
  if (kolo::detail::train::plan_buckets(two_types, 1000).buckets.size() != 2) return 1;
  const testing::scratch_directory directory;
  const auto path = directory / "model";
  int status = 0;
  try {
    kolo::threads::run(
        2,
        [&](auto& comm) {
          tiny(comm);
          const kolo::optimizer_options o{.bucket_bytes = 200, .inputs = kolo::uneven::by_those_left};
          assorted whole, divided, again;
          kolo::distributed_optimizer replicas{comm, alone{}, whole.parameters(), o};
          joined(comm, replicas, whole);
          kolo::sharded_optimizer shards{comm, rule, divided.parameters(), o}, later{comm, rule, again.parameters()};
          joined(comm, shards, divided);
          kolo::save_sharded_checkpoint(path, shards);
          kolo::load_sharded_checkpoint(path, later);
          t.expect(again.is(divided));
          divided.f[2][0] = again.f[2][0] = static_cast<float>(10 + comm.rank());
          kolo::broadcast_parameters(comm, again.parameters());
          t.expect(again.is(divided));
        },
        {.timeout = std::chrono::seconds{30}});
  } catch (const kolo::error&) {
    status = 1;
  }
  return t.wrong == 0 ? status : 1;
}
