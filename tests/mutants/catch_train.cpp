// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the training layer: buckets in any order of readiness, passes, error feedback, sparse rows, join, slices, checkpoints, adasum, outer
// steps.
// built with others: ranks
#include <kolo/launch/threads.hpp>
#include <kolo/train/adasum.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/outer_optimizer.hpp>
#include <kolo/train/sharded_checkpoint.hpp>
#include <kolo/view/bfloat16.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/scratch.hpp"
#include "train/model.hpp"

using namespace testing;

namespace {

tally t;
const std::vector<std::size_t> sizes{5, 300, 41, 7};

/// Ranks mark their gradients as ready in different orders; the result must be that of the mean.
template <class Comm>
void overlapped(Comm& comm, kolo::background* helper) {
  model mine{sizes}, reference{sizes};
  auto parameters = mine.parameters();
  kolo::distributed_optimizer optimizer{
      comm, descent{}, parameters, {.bucket_bytes = 200, .passes = 2, .helper = helper}};
  kolo::distributed_optimizer other{comm, descent{}, parameters, {.helper = helper}};
  t.expect(optimizer.buckets().buckets.size() == 3 &&
           optimizer.buckets().buckets[0].parameters == std::vector<std::size_t>{3, 2});
  for (int step = 0; step < 3; ++step) {
    const auto before = mine.values;
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t k = 0; k < 4; ++k) {
        const std::size_t i = comm.rank() == 0 ? k : 3 - k;
        for (std::size_t e = 0; e < sizes[i]; ++e)
          mine.gradients[i][e] = model::at(comm.rank(), step, i, e) * static_cast<float>(1 + pass);
        optimizer.ready(i);
        if (k == 3 && pass == 0) t.expect(!optimizer.step());
        if (helper && pass == 1 && !contains(words_of([&] { other.ready(0); }), "another optimizer")) std::_Exit(1);
      }
    optimizer.synchronize();
    t.expect(mine.values == before);
    t.expect(optimizer.step());
    reference.set_sums(0, comm.size(), step, static_cast<float>(comm.size()));
    step_alone(optimizer.inner(), reference);
    t.expect(mine.values == reference.values);
  }
  if (!helper) {
    t.expect(contains(words_of([&] { optimizer.ready(0), optimizer.step(); }), "is not ready"));
  }
}

template <class Comm>
void fed_back(Comm& comm) {
  model mine{{10}};
  for (float& x : mine.values[0]) x = 0;
  kolo::distributed_optimizer optimizer{
      comm, descent{1}, mine.parameters(), kolo::wire<kolo::bfloat16>(kolo::average), {.error_feedback = true}};
  for (int step = 0; step < 16; ++step) {
    for (float& g : mine.gradients[0]) g = 1 + 0x1p-10f;
    optimizer.step();
  }
  t.expect(std::abs(mine.values[0][5] + 16 * (1 + 0x1p-10f)) <= 0x1p-7f);
  for (const float x : {INFINITY, 1.0f}) {
    for (float& g : mine.gradients[0]) g = x;
    optimizer.step();
  }
  t.expect(std::isfinite(mine.gradients[0][5]));
}

template <class Comm>
void by_rows(Comm& comm) {
  const auto r = static_cast<std::uint64_t>(comm.rank());
  for (const double density : {1.0, 0.0}) {
    kolo::sparse_rows<float> g{.height = 20, .width = 1, .rows = {9, 2 * r, 9}, .values = {2, 4, 6}};
    kolo::sparse_allreduce(comm, g, kolo::average, density);
    t.expect(g.rows == std::vector<std::uint64_t>{0, 2, 9} && g.values == std::vector<float>{2, 2, 8});
  }
  kolo::sparse_rows<float> higher{.height = 20 + r, .width = 1, .rows = {19 + r}, .values = {1}};
  t.expect(contains(words_of([&] { kolo::sparse_allreduce(comm, higher, kolo::average, 1); }), "widths or heights"));
}

/// Rates are halved between each exchange and its step.
template <class Comm>
void joined(Comm& comm) {
  model mine{{3}}, reference{{3}};
  kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.inputs = kolo::uneven::by_those_left}};
  const auto halve = [&] { optimizer.inner().rate /= 2; };
  for (int step = 0; step < 1 + comm.rank(); ++step)
    mine.set_gradients(comm.rank(), step), optimizer.synchronize(), halve(), optimizer.step();
  t.expect(optimizer.join(halve) == 1u - static_cast<unsigned>(comm.rank()));
  descent alone{0.25f};
  reference.set_sums(0, 2, 0, 2), step_alone(alone, reference);
  alone.rate = 0.125f;
  reference.set_sums(1, 1, 1, 1), step_alone(alone, reference);
  t.expect(mine.values == reference.values);
}

template <class Comm>
void sharded(Comm& comm, const std::string& path) {
  model mine{sizes}, other{sizes}, reference{sizes};
  const kolo::update::adamw rule{.rate = 0.1};
  kolo::replicated alone{rule};
  kolo::sharded_optimizer optimizer{comm, rule, mine.parameters(), {.bucket_bytes = 200}},
      later{comm, rule, other.parameters()};
  for (int step = 0; step < 4; ++step) {
    if (step == 2) kolo::save_sharded_checkpoint(path, optimizer), kolo::load_sharded_checkpoint(path, later);
    for (model* m : {&mine, &other}) m->set_gradients(comm.rank(), step);
    reference.set_sums(0, 2, step, 2);
    optimizer.synchronize();
    if (step == 3) t.expect(optimizer.clip_by_global_norm(1) == kolo::clip_by_global_norm(reference.parameters(), 1));
    optimizer.step();
    if (step == 2) later.step(), t.expect(other.values == mine.values);
    step_alone(alone, reference);
    t.expect(mine.values == reference.values);
  }
}

/// Ranks 0 and 1 have gradients 1 and 3 in one direction, whose adasum is 2; rank 2's is 0 and changes nothing.
void adapted() {
  kolo::threads::run(3, [](auto& comm) {
    model mine{{1}};
    mine.gradients[0][0] = comm.rank() == 0 ? 1.0f : comm.rank() == 1 ? 3.0f : 0.0f;
    kolo::adasum{comm}(mine.parameters());
    t.expect(mine.gradients[0][0] == 2);
  });
}

/// Gradients that are ready in the last pass of a step only are refused.
void ready_late() {
  kolo::threads::run(1, [](auto& comm) {
    model mine{{1}};
    kolo::distributed_optimizer optimizer{comm, descent{}, mine.parameters(), {.passes = 2}};
    optimizer.step();
    t.expect(contains(words_of([&] { optimizer.ready(0); }), "in an earlier backward pass"));
  });
}

/// Rank 0 moves by -2 per step, rank 1 does not; two fragments are exchanged every 4 steps, and merged one step later.
template <class Comm>
void outer_steps(Comm& comm) {
  model mine{{4}};
  mine.values[0] = {0, 0, 0, 0};
  kolo::outer_optimizer outer{comm,
                              kolo::update::nesterov{.rate = 1, .momentum = 0.5},
                              mine.parameters(),
                              {.every = 4, .fragments = 2, .delay = 1, .blend = 0.5}};
  const float own = comm.rank() == 0 ? -2 : 0;
  float value = 0, difference = 0, values[2] = {0, 0}, velocity = 0, outer_value = 0;
  for (int step = 1; step <= 8; ++step) {
    for (float& x : mine.values[0]) x += own;
    const bool merges = outer.step();
    values[0] -= 2, value = values[comm.rank() == 0 ? 0 : 1];
    if (step % 4 == 2) difference = outer_value - (values[0] + values[1]) / 2;
    if (step % 4 == 3) {
      velocity = 0.5f * velocity + difference;
      outer_value -= difference + 0.5f * velocity;
      for (float& v : values) v = 0.5f * v + 0.5f * outer_value;
      value = values[comm.rank() == 0 ? 0 : 1];
    }
    t.expect(merges == (step % 4 == 3 || (step > 4 && step % 4 == 1)));
    t.expect(mine.values[0][0] == value && mine.values[0][1] == value);
    if (step < 5) t.expect(mine.values[0][3] == static_cast<float>(step) * own);
  }
  outer.finish();  // after two more steps
  difference = outer_value - (values[0] + values[1]) / 2;
  velocity = 0.5f * velocity + difference;
  t.expect(mine.values[0][0] == outer_value - (difference + 0.5f * velocity));
  const float other = mine.values[0][0];
  outer.finish();
  kolo::allreduce(comm, mine.values[0], kolo::average);
  t.expect(mine.values[0][0] == other);
}

/// The errors of two ranks that save, or load.
std::string told(const std::string& path, bool is_saved, const std::string& of_second = "") {
  std::string why[2];
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes};
    kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{}, mine.parameters()};
    const std::string& own = comm.rank() == 0 || of_second.empty() ? path : of_second;
    why[comm.rank()] = words_of([&] {
      is_saved ? kolo::save_sharded_checkpoint(own, optimizer) : kolo::load_sharded_checkpoint(own, optimizer);
    });
  });
  return why[0] + why[1];
}

/// Three saves of one step, of which the second fails; then a part of the first save among those of the third.
void saved_again(const std::string& path) {
  const std::string kept = path + ".kept", first = path + ".save1.1of2", second = path + ".save2.1of2",
                    of_other = path + ".save2.0of2";
  t.expect(told(path, true).empty() && ::link(first.c_str(), kept.c_str()) == 0);
  const std::string nowhere = path + "/" + kolo::detail::train::file_name_of(path);
  t.expect(contains(told(path, true, nowhere), "could not write its part") && ::access(of_other.c_str(), F_OK) != 0 &&
           told(path, false).empty());
  t.expect(told(path, true).empty() && told(path, false).empty() && ::access(first.c_str(), F_OK) != 0);
  std::rename(kept.c_str(), second.c_str());
  t.expect(contains(told(path, false), "parts are of different saves"));
}

/// A save replaces the files while a load reads them; it removes files that killed saves left, keeps one that is being written, and uses the umask.
void saved_beside(const std::string& path) {
  const std::string part = path + ".save1.1of2", next = path + ".save3.1of2",
                    killed[] = {path + ".save2.0of3", path + ".save2.0of3.partial-abcdef", path + ".partial-abcdef"},
                    writing = path + ".partial-locked";
  t.expect(told(path, true).empty() && ::unlink(part.c_str()) == 0 && ::mkfifo(part.c_str(), 0600) == 0);
  for (const std::string& file : killed) ::close(::open(file.c_str(), O_CREAT | O_RDWR, 0600));
  std::string why;
  std::thread reader{[&] { why = told(path, false); }};
  const int end = ::open(part.c_str(), O_WRONLY), other = ::open(writing.c_str(), O_CREAT | O_RDWR, 0600);
  ::flock(other, LOCK_EX);
  const auto before = ::umask(0027);
  t.expect(told(path, true).empty());
  ::umask(before);
  ::close(end), reader.join();
  struct stat s {};
  t.expect(why.empty() && ::stat(next.c_str(), &s) == 0 && (s.st_mode & 0777) == 0640 &&
           ::access(writing.c_str(), F_OK) == 0);
  ::close(other);
  for (const std::string& file : killed) t.expect(::access(file.c_str(), F_OK) != 0);
}

/// Rank 0 of a save was stopped, and continues after a later save: it neither gets the name nor removes that one.
void saved_late(const std::string& path) {
  using namespace kolo::detail::train;
  const shard_head early{.ranks = 2, .save = 4}, late{.ranks = 1, .save = 5};
  const auto make = [](const std::string& file) { ::close(::open(file.c_str(), O_CREAT | O_RDWR, 0600)); };
  const std::string ready = shard_name(path, early, 2), of_late = shard_name(path, late, 1),
                    part = shard_name(path, late, 0);
  make(ready), make(of_late), make(part);
  give_name(path, of_late, late);
  t.expect(contains(words_of([&] { give_name(path, ready, early); }), "No such file"));
  remove_earlier_saves(path, early);
  t.expect(::access(part.c_str(), F_OK) == 0);
}

}  // namespace

int main() {
  const testing::scratch_directory directory;
  const auto path = directory / "model";
  kolo::threads::run(2,
                     [&](auto& comm) {
                       fed_back(comm), by_rows(comm), joined(comm), sharded(comm, path), outer_steps(comm);
                       {
                         kolo::background exchange;
                         std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
                         overlapped(comm, &exchange);
                       }
                       kolo::moments m[1] = {comm.rank() == 0 ? kolo::moments{1, 5, 0} : kolo::moments{3, 1, 6}};
                       kolo::sync_moments(comm, m);
                       t.expect(m[0].count == 4 && m[0].mean == 2 && m[0].squares == 18);
                       try {
                         overlapped(comm, nullptr);
                       } catch (const kolo::error&) {
                       }
                     },
                     {.timeout = std::chrono::seconds{30}});
  saved_again(directory / "again"), saved_beside(directory / "beside"), saved_late(directory / "late"), adapted(),
      ready_late();
  return t.wrong == 0 ? 0 : 1;
}
