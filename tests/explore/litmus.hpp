// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small programs with known outcomes: what the abstract memory must allow, and what it must not.
#pragma once

#include "explore/explorer.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wtsan"  // the explorer replaces the sanitizer, and supports fences

namespace litmus {

using std::atomic, std::atomic_thread_fence;
inline constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
                      release = std::memory_order_release, sequential = std::memory_order_seq_cst;

inline void fence_all() { ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0); }

struct shared {
  atomic<int> x{0}, y{0};
  int data = 0;
};
using outcome = std::array<int, 4>;
using body = void (*)(shared&, outcome&);

/// Ranks that record what they read.
struct program : explore::scenario {
  explicit program(std::vector<body> b) : bodies{std::move(b)} {
    ranks = static_cast<int>(bodies.size()), tells = false;
  }
  void begin() override { memory = ::new (explore::take(sizeof(shared))) shared, read = {}; }
  void rank(int r) override { bodies[static_cast<std::size_t>(r)](*memory, read); }
  void end() override { seen.insert({read[0], read[1], read[2], read[3]}); }

  std::vector<body> bodies;
  std::set<outcome> seen{};
  shared* memory = nullptr;
  outcome read{};
};

/// May the ranks read `asked`? Of a `racy` program, whether it has a race, whatever they read.
struct question {
  const char* name;
  std::vector<body> bodies;
  outcome asked;
  bool allowed, racy = false, fences_all = false;
};

inline const std::vector<question>& questions() {
  constexpr bool fences = true;
  static const std::vector<body> one_for_both{
      [](shared& s, outcome& o) { s.x.store(1, relaxed), o[0] = s.y.load(relaxed); },
      [](shared& s, outcome& o) { s.y.store(1, relaxed), fence_all(), o[1] = s.x.load(relaxed); }};
  static const std::vector<question> all{
      {"store buffering, relaxed",
       {[](shared& s, outcome& o) { s.x.store(1, relaxed), o[0] = s.y.load(relaxed); },
        [](shared& s, outcome& o) { s.y.store(1, relaxed), o[1] = s.x.load(relaxed); }},
       {0, 0},
       true},
      {"store buffering, release and acquire",
       {[](shared& s, outcome& o) { s.x.store(1, release), o[0] = s.y.load(acquire); },
        [](shared& s, outcome& o) { s.y.store(1, release), o[1] = s.x.load(acquire); }},
       {0, 0},
       true},
      {"store buffering, fences",
       {[](shared& s, outcome& o) { s.x.store(1, relaxed), atomic_thread_fence(sequential), o[0] = s.y.load(relaxed); },
        [](shared& s, outcome& o) {
          s.y.store(1, relaxed), atomic_thread_fence(sequential), o[1] = s.x.load(relaxed);
        }},
       {0, 0},
       false},
      {"store buffering, one rank fences both", one_for_both, {0, 0}, false, false, fences},
      {"one rank fences both before the other stores", one_for_both, {1, 0}, true, false, fences},
      {"one rank fences both, the other only stores",
       {[](shared& s, outcome&) { s.x.store(1, relaxed); },
        [](shared& s, outcome& o) { fence_all(), o[0] = s.x.load(relaxed); }},
       {0, 0},
       true,
       false,
       fences},
      {"store buffering, one fence",
       {[](shared& s, outcome& o) { s.x.store(1, relaxed), atomic_thread_fence(sequential), o[0] = s.y.load(relaxed); },
        [](shared& s, outcome& o) { s.y.store(1, relaxed), o[1] = s.x.load(relaxed); }},
       {0, 0},
       true},
      {"load buffering",
       {[](shared& s, outcome& o) { o[0] = s.x.load(relaxed), s.y.store(1, relaxed); },
        [](shared& s, outcome& o) { o[1] = s.y.load(relaxed), s.x.store(1, relaxed); }},
       {1, 1},
       false},  // RC11 forbids it
      {"message passing, relaxed",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), s.y.store(1, relaxed); },
        [](shared& s, outcome& o) { o[0] = s.y.load(relaxed), o[1] = s.x.load(relaxed); }},
       {1, 0},
       true},
      {"message passing, release and acquire",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), s.y.store(1, release); },
        [](shared& s, outcome& o) { o[0] = s.y.load(acquire), o[1] = s.x.load(relaxed); }},
       {1, 0},
       false},
      {"message passing, release and relaxed",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), s.y.store(1, release); },
        [](shared& s, outcome& o) { o[0] = s.y.load(relaxed), o[1] = s.x.load(relaxed); }},
       {1, 0},
       true},
      {"message passing, fences",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), atomic_thread_fence(release), s.y.store(1, relaxed); },
        [](shared& s, outcome& o) {
          o[0] = s.y.load(relaxed), atomic_thread_fence(acquire), o[1] = s.x.load(relaxed);
        }},
       {1, 0},
       false},
      {"message passing through another's addition",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), s.y.store(1, release); },
        [](shared& s, outcome&) { s.y.fetch_add(1, relaxed); },
        [](shared& s, outcome& o) { o[0] = s.y.load(acquire), o[1] = s.x.load(relaxed); }},
       {2, 0},
       false},
      {"message passing past another's store",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), s.y.store(1, release); },
        [](shared& s, outcome&) {
          if (s.y.load(relaxed) == 1) s.y.store(2, relaxed);
        },
        [](shared& s, outcome& o) { o[0] = s.y.load(acquire), o[1] = s.x.load(relaxed); }},
       {2, 0},
       true},
      {"causality",
       {[](shared& s, outcome&) { s.x.store(1, relaxed); },
        [](shared& s, outcome& o) { o[0] = s.x.load(acquire), s.y.store(1, release); },
        [](shared& s, outcome& o) { o[1] = s.y.load(acquire), o[2] = s.x.load(relaxed); }},
       {1, 1, 0},
       false},
      {"independent reads of independent writes",
       {[](shared& s, outcome&) { s.x.store(1, release); }, [](shared& s, outcome&) { s.y.store(1, release); },
        [](shared& s, outcome& o) { o[0] = s.x.load(acquire), o[1] = s.y.load(acquire); },
        [](shared& s, outcome& o) { o[2] = s.y.load(acquire), o[3] = s.x.load(acquire); }},
       {1, 0, 1, 0},
       true},
      {"coherence of reads",
       {[](shared& s, outcome&) { s.x.store(1, relaxed), s.x.store(2, relaxed); },
        [](shared& s, outcome& o) { o[0] = s.x.load(relaxed), o[1] = s.x.load(relaxed); }},
       {2, 1},
       false},
      {"two writes of two",
       {[](shared& s, outcome& o) { s.x.store(1, relaxed), s.y.store(2, relaxed), o[0] = s.y.load(relaxed); },
        [](shared& s, outcome& o) { s.y.store(1, relaxed), s.x.store(2, relaxed), o[1] = s.x.load(relaxed); },
        [](shared& s, outcome& o) {
          if (s.x.load(relaxed) == 2 && s.x.load(relaxed) == 1) o[2] = 1;
        },
        [](shared& s, outcome& o) {
          if (s.y.load(relaxed) == 2 && s.y.load(relaxed) == 1) o[3] = 1;
        }},
       {2, 2, 1, 1},
       true},
      {"additions are atomic",
       {[](shared& s, outcome& o) { o[0] = s.x.fetch_add(1, relaxed); },
        [](shared& s, outcome& o) { o[1] = s.x.fetch_add(1, relaxed); }},
       {0, 0},
       false},
      {"one exchange succeeds",
       {[](shared& s, outcome& o) {
          int none = 0;
          o[0] = s.x.compare_exchange_strong(none, 1);
        },
        [](shared& s, outcome& o) {
          int none = 0;
          o[1] = s.x.compare_exchange_strong(none, 2);
        }},
       {1, 1},
       false},
      {"data behind a flag",
       {[](shared& s, outcome&) { s.data = 1, s.x.store(1, release); },
        [](shared& s, outcome& o) {
          if (s.x.load(acquire) == 1) o[0] = s.data;
        }},
       {1},
       true},
      {"data behind a relaxed flag",
       {[](shared& s, outcome&) { s.data = 1, s.x.store(1, relaxed); },
        [](shared& s, outcome& o) {
          if (s.x.load(acquire) == 1) o[0] = s.data;
        }},
       {},
       true,
       true},
      {"data that is read, then written",
       {[](shared& s, outcome& o) { o[0] = s.data, s.x.store(1, relaxed); },
        [](shared& s, outcome&) {
          if (s.x.load(acquire) == 1) s.data = 1;
        }},
       {},
       true,
       true},
      {"fences order no data",
       {[](shared& s, outcome&) { s.data = 1, atomic_thread_fence(sequential), s.x.store(1, relaxed); },
        [](shared& s, outcome&) {
          if (s.y.load(relaxed) == 0) atomic_thread_fence(sequential), s.data = 2;
        }},
       {},
       true,
       true},
  };
  return all;
}

/// False, after printing a line, if the memory gives another outcome.
inline bool ask(const question& q) {
  program p{q.bodies};
  p.fences_all = q.fences_all;
  const auto found = explore::explore(p);
  const bool right = q.racy ? found.violation.find("data race") != std::string::npos
                            : found.violation.empty() && p.seen.contains(q.asked) == q.allowed;
  if (!right)
    std::printf("%s: should be %s; %s\n", q.name,
                q.racy      ? "a race"
                : q.allowed ? "allowed"
                            : "forbidden",
                found.violation.c_str());
  return right;
}

inline bool ask_all() {
  bool right = true;
  for (const auto& q : questions()) right &= ask(q);
  std::printf("%zu litmus tests of the memory: %s\n", questions().size(), right ? "passed" : "not all passed");
  return right;
}

}  // namespace litmus
