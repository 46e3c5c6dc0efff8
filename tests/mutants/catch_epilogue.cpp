// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in epilogues, which follow the last reduction part by part, and in a sharded optimizer's updates by them.
// built with others: ranks
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/sharded.hpp>

#include <algorithm>

#include "train/model.hpp"

using namespace testing;

namespace {

tally t;

/// The epilogue gets every element once.
template <class Comm, class Algorithm>
void followed(Comm& comm, const Algorithm& algorithm, std::size_t n) {
  const auto own = kolo::block(n, comm.size(), comm.rank());
  std::vector<int> in(n, comm.rank() + 1), sums(own.count), told(own.count);
  std::vector<std::span<int>> parts{std::span{sums}};
  const kolo::detail::execute::epilogue then{[](void* self, std::size_t i, std::size_t count) {
                                               for (const std::size_t end = i + count; i < end; ++i)
                                                 ++static_cast<std::vector<int>*>(self)->at(i);
                                             },
                                             &told};
  const kolo::detail::collective::followed<kolo::bucket<int>> out{kolo::bucket{parts}, &then};
  kolo::reduce_scatter(comm, in, out, kolo::sum, algorithm);
  t.expect(std::all_of(told.begin(), told.end(), [](int times) { return times == 1; }));
}

/// Step 0 reduces in step(); later steps are ready before it, and step 1 is also synchronised before it.
template <class Comm>
void updated(Comm& comm) {
  const std::vector<std::size_t> sizes{3, 700, 90};
  model mine{sizes}, reference{sizes};
  const kolo::update::momentum rule{.rate = 0.5, .factor = 0.5};
  kolo::replicated alone{rule};
  kolo::sharded_optimizer optimizer{comm, rule, mine.parameters(), kolo::ring{}, {.bucket_bytes = 1000}};
  for (int step = 0; step < 4; ++step) {
    mine.set_gradients(comm.rank(), step);
    const auto before = mine.values;
    if (step > 0) optimizer.ready(2), optimizer.ready(1), optimizer.ready(0);
    if (step == 1) optimizer.synchronize();
    if (step > 0) t.expect(step == 1 ? mine.values == before : mine.values[0][0] == before[0][0]);
    optimizer.step();
    reference.set_sums(0, comm.size(), step, static_cast<float>(comm.size()));
    step_alone(alone, reference);
    t.expect(mine.values == reference.values);
  }
}

/// Rank 1 has one batch more, of which the mean is its own gradient.
template <class Comm>
void joined(Comm& comm) {
  model mine{{40}}, reference{{40}};
  const kolo::update::sgd rule{.rate = 0.5};
  kolo::replicated alone{rule};
  kolo::sharded_optimizer optimizer{comm, rule, mine.parameters(), {.inputs = kolo::uneven::by_those_left}};
  for (int step = 0; step <= comm.rank(); ++step) mine.set_gradients(comm.rank(), step), optimizer.step();
  optimizer.join();
  for (int step = 0; step < 2; ++step)
    reference.set_sums(step, 2 - step, step, static_cast<float>(2 - step)), step_alone(alone, reference);
  t.expect(mine.values == reference.values);
}

}  // namespace

int main() {
  for (const int p : {1, 2, 3})
    kolo::threads::run(p,
                       [](auto& comm) {
                         followed(comm, kolo::ring{}, 2000), followed(comm, kolo::one_shot{}, 20);
                         if (comm.size() != 3) updated(comm);  // divisions by 3 are not exact
                         if (comm.size() == 2) joined(comm);
                       },
                       {.timeout = std::chrono::seconds{5}, .slot_bytes = 1024});
  return t.wrong == 0 ? 0 : 1;
}
