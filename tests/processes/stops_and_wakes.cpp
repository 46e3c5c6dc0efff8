// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are stopped, continued and killed at random times while they call, shrink, and call again on the same buffers: no result is ever wrong. By hand:
// processes.stops_and_wakes (target kolo_later), for example with KOLO_RUNS=500, KOLO_SEED=1 and KOLO_FIRST=0 in the environment.
#include <atomic>
#include <cstdio>
#include <iterator>
#include <random>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

constexpr int most = 4;
using moment = std::chrono::steady_clock::time_point;
using shared_ints = std::vector<int, kolo::shm::allocator<int>>;

struct totals {
  std::atomic<pid_t> ranks[most];
  std::atomic<long> calls, failures, shrinks, taken_back, in_use, left_out, stops, kills, wrong, wrong_later, hung;
  std::atomic<long long> slowest_ns;  ///< the longest call of a rank that was not stopped meanwhile
  std::atomic<long> stops_of[most];
};

template <class T>
T drawn(std::mt19937& dice, std::initializer_list<T> those) {
  return *(those.begin() + dice() % those.size());
}

int all_members(int members) { return (1 << members) - 1; }

/// Adds; where `left` is set, stops its process in the middle of a piece, until it is continued.
struct stopping_sum {
  static inline long left = 0;
  int operator()(int a, int b) const {
    if (left > 0 && --left == 0) ::raise(SIGSTOP);
    return a + b;
  }
};

/// One rank. In each step it holds its own bit, so that a sum shows which ranks' operands are in it.
class stress_rank {
 public:
  stress_rank(kolo::shm::communicator& comm, totals& all, std::size_t n)
      : comm_{comm}, all_{all}, id_{comm.rank()}, n_{n} {
    make_buffers();
  }

  void play(moment end) {
    int members = all_members(comm_.size());
    for (int step = 0; std::chrono::steady_clock::now() < end; ++step) {
      const auto before = std::chrono::steady_clock::now();
      const long stops = all_.stops_of[id_];
      try {
        std::fill(x_.begin(), x_.end(), 1 << id_);
        call(step);
        const int expected = members;
        check(expected, all_.wrong);
        if (all_.stops_of[id_] == stops) note_time(std::chrono::steady_clock::now() - before);
        if (comm_.size() > 1) ++all_.calls;
        kolo::barrier(comm_, {.timeout = 150ms});
        check(expected, all_.wrong_later);
      } catch (const kolo::error& e) {
        ++all_.failures;
        if (all_.stops_of[id_] == stops && std::chrono::steady_clock::now() - before > 1s) ++all_.taken_back;
        if (e.buffers_in_use() > 0) ++all_.in_use, make_buffers();
        if (!go_on(members, step)) return;
      }
    }
  }

 private:
  void make_buffers() {
    kept_.push_back(std::move(x_));  // a rank may still write to it
    kept_.push_back(std::move(y_));
    const kolo::shm::allocator<int> heap{comm_};
    x_ = shared_ints(n_, 0, heap), y_ = shared_ints(n_, 0, heap);
  }
  void call(int step) {
    const kolo::shm::communicator::options soon{.timeout = 150ms};
    switch (step % 5) {
      case 0: return kolo::allreduce(comm_, x_, stopping_sum{}, kolo::two_shot{}, soon);
      case 1: return kolo::allreduce(comm_, x_, y_, kolo::sum, kolo::two_shot{}, soon), y_.swap(x_);
      case 2: return kolo::allreduce(comm_, x_, y_, stopping_sum{}, kolo::one_shot{}, soon), y_.swap(x_);
      case 3: return kolo::allreduce(comm_, x_, kolo::sum, kolo::ring{}, soon);
      default: return kolo::allreduce(comm_, x_, kolo::sum, soon);
    }
  }
  void check(int expected, std::atomic<long>& wrong) {
    if (std::size_t(std::count(x_.begin(), x_.end(), expected)) != n_) ++wrong;
  }
  void note_time(std::chrono::nanoseconds t) {
    for (auto known = all_.slowest_ns.load();
         known < t.count() && !all_.slowest_ns.compare_exchange_weak(known, t.count());) {
    }
  }
  /// False: the others have continued without this rank.
  bool go_on(int& members, int& step) {
    for (;;) {
      try {
        comm_ = comm_.shrink({.timeout = 200ms});
        ++all_.shrinks;
        int said[2] = {1 << id_, 0}, known[2]{};
        kolo::allreduce(comm_, said, known, kolo::bit_or, {.timeout = 150ms});
        members = known[0];
        int last[1] = {step};
        kolo::allreduce(comm_, last, kolo::max, {.timeout = 150ms});
        step = last[0];
        return true;
      } catch (const kolo::error& e) {
        if (std::string_view{e.operation()} == "shrink") return ++all_.left_out, false;
      }
    }
  }

  kolo::shm::communicator& comm_;
  totals& all_;
  int id_;
  std::size_t n_;
  shared_ints x_{}, y_{};
  std::vector<shared_ints> kept_{};
};

void rest(std::mt19937& dice, std::initializer_list<unsigned> at_most) {
  ::usleep(static_cast<unsigned>(dice() % drawn(dice, at_most)));
}

void stop_for_at_most(totals& all, std::mt19937& dice, std::size_t victim, std::initializer_list<unsigned> at_most,
                      unsigned at_least = 0) {
  ++all.stops, ++all.stops_of[victim];
  ::kill(all.ranks[victim], SIGSTOP);
  ::usleep(at_least);
  rest(dice, at_most);
  ::kill(all.ranks[victim], SIGCONT);
}

/// Stops some ranks briefly, then one for longer, and sometimes kills one; at the end all others run.
void disturb(totals& all, unsigned seed, moment end) {
  std::mt19937 dice{seed};
  while (std::any_of(std::begin(all.ranks), std::end(all.ranks), [](const auto& pid) { return pid == 0; }))
    ::usleep(100);
  rest(dice, {50'000});
  if (dice() % 2 == 0) ::usleep(1'500'000);  // until then, a rank that has stopped itself is left out
  for (auto n = dice() % 4; n > 0; --n, rest(dice, {200, 50'000}))
    stop_for_at_most(all, dice, dice() % most, {1'000, 100'000});
  if (dice() % 4 == 0) {
    ++all.kills;
    ::kill(all.ranks[dice() % most], SIGKILL);
    rest(dice, {200, 100'000});
  }
  // In two runs of three it is stopped for at least 1.5 s, so that the others continue without it.
  stop_for_at_most(all, dice, dice() % most, {300'000, 700'000}, dice() % 3 == 0 ? 0 : 1'500'000);
  rest(dice, {200'000});
  for (; std::chrono::steady_clock::now() < end; ::usleep(20'000))  // also continues a rank that stopped itself late
    for (const auto& pid : all.ranks) ::kill(pid, SIGCONT);
}

void say(int runs, const totals& all) {
  std::printf(
      "%d runs: %ld calls, %ld failed, %ld shrinks, %ld stops, %ld kills, %ld left out, %ld took memory back, %ld "
      "buffers in use",
      runs, all.calls.load(), all.failures.load(), all.shrinks.load(), all.stops.load(), all.kills.load(),
      all.left_out.load(), all.taken_back.load(), all.in_use.load());
  std::printf("; wrong %ld, later %ld, hung %ld; slowest %.2f s\n", all.wrong.load(), all.wrong_later.load(),
              all.hung.load(), static_cast<double>(all.slowest_ns) / 1e9);
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("ranks are stopped, continued and killed at random, and use their buffers again") {
  const auto number = [](const char* name, int otherwise) {
    return std::getenv(name) ? std::atoi(std::getenv(name)) : otherwise;
  };
  common<totals> all;
  const int runs = number("KOLO_RUNS", 20);
  for (int run = number("KOLO_FIRST", 0), first = run; run < first + runs; ++run) {
    const auto seed = static_cast<unsigned>(number("KOLO_SEED", 1) * 100'000 + run);
    std::mt19937 dice{seed};
    const auto n = drawn<std::size_t>(dice, {100'003, 1 << 18, 1 << 20});
    for (auto& pid : all->ranks) pid = 0;
    const auto start = std::chrono::steady_clock::now();
    child ranks{[&] {
      ::alarm(60);
      (void)::freopen("/dev/null", "w", stderr);
      return std::to_string(kolo::shm::launch(most, [&](auto& comm) {
        stress_rank mine{comm, *all, n};
        kolo::barrier(comm);
        all->ranks[comm.rank()] = ::getpid();
        if (static_cast<int>(seed % 8) == comm.rank())
          stopping_sum::left = 1 + static_cast<long>((seed * 2654435761u >> 4) % (2 * n));
        mine.play(start + 4s);
      }));
    }};
    child director{[&] { return disturb(*all, seed, start + 5s), std::string{}; }};
    director.result();
    const auto said = ranks.result();
    if (std::chrono::steady_clock::now() - start > 30s || said.starts_with("signal")) ++all->hung;
    if (run % 10 == 9 || run + 1 == first + runs) say(run - first + 1, *all);
  }
  CHECK(all->calls > 0);
  CHECK((all->wrong == 0 && all->wrong_later == 0 && all->hung == 0));
}
