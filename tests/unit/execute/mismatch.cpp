// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks whose calls differ: an error that says how, on every rank, and no wrong data.
#include <kolo/collective/send.hpp>
#include <kolo/simulate/simulated.hpp>
#include <kolo/view/bfloat16.hpp>

#include <latch>
#include <numeric>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/message_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// Rank 1 calls `one`, the others `most`; then all call a barrier. By then every rank must have failed, with the same message, which is returned.
template <class Most, class One>
std::string disagreement(int p, Most most, One one) {
  const auto said = on_threads(p, [&](auto& comm) {
    const bool was_usable = comm.failed() == nullptr;
    const auto words = words_of([&] {
      if (comm.rank() == 1) one(comm);
      else most(comm);
      kolo::barrier(comm);
    });
    const bool has_cause = was_usable && comm.failed() && words == kolo::error{*comm.failed()}.what();
    return has_cause ? words : "comm.failed() is not the cause";
  });
  return said == all_say(p, said[0]) ? said[0] : "different words: " + said[0] + " / " + said[1];
}

const auto sum_of_ten = [](auto& comm) {
  int x[10]{};
  kolo::allreduce(comm, x, kolo::sum);
};

}  // namespace

TEST_CASE("mismatch: another collective") {
  for (const int p : {2, 3, 5}) {
    const auto words = disagreement(p, sum_of_ten, [](auto& comm) {
      int x[10]{};
      kolo::broadcast(comm, x, 0);
    });
    CHECK(contains(words, ": rank "));
    CHECK((contains(words, "allreduce") && contains(words, "broadcast")));
    CHECK(contains(words, "rank 1"));
  }
}

TEST_CASE("mismatch: another count, type, operator or algorithm") {
  for (const int p : {2, 3, 5}) {
    CHECK(contains(disagreement(p, sum_of_ten,
                                [](auto& comm) {
                                  int x[11]{};
                                  kolo::allreduce(comm, x, kolo::sum);
                                }),
                   "calls it with another count, type, operator, algorithm, root or optimizer"));
    CHECK(contains(disagreement(p, sum_of_ten,
                                [](auto& comm) {
                                  unsigned x[10]{};
                                  kolo::allreduce(comm, x, kolo::sum);
                                }),
                   "calls it with another"));
    CHECK(contains(disagreement(p, sum_of_ten,
                                [](auto& comm) {
                                  int x[10]{};
                                  kolo::allreduce(comm, x, kolo::max);
                                }),
                   "calls it with another"));
    CHECK(contains(disagreement(p, sum_of_ten,
                                [](auto& comm) {
                                  int x[10]{};
                                  kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
                                }),
                   "calls it with another"));
  }
}

TEST_CASE("mismatch: another wire type") {
  const auto with = [](auto op) {
    return [op](auto& comm) {
      float x[10]{};
      kolo::allreduce(comm, x, op);
    };
  };
  CHECK(contains(disagreement(2, with(kolo::average), with(kolo::wire<kolo::bfloat16>(kolo::average))),
                 "calls it with another"));
}

TEST_CASE("mismatch: another root") {
  for (const int p : {3, 4})
    CHECK(contains(disagreement(
                       p,
                       [](auto& comm) {
                         int x[10]{};
                         kolo::broadcast(comm, x, 0);
                       },
                       [](auto& comm) {
                         int x[10]{};
                         kolo::broadcast(comm, x, 2);
                       }),
                   "rank"));
}

namespace {

const auto from = [](int root) {
  return [root](auto& comm) {
    int x[10]{};
    kolo::broadcast(comm, x, root);
  };
};

/// Rank 1 takes itself for the root: ranks that wait for rank 0 get its data, and no rank reads what rank 1 sends.
template <class Run>
void check_own_root(Run run) {
  std::vector<std::string> said(3);
  run(3, [&](auto& comm) {
    said[static_cast<std::size_t>(comm.rank())] = words_of([&] {
      from(comm.rank() == 1 ? 1 : 0)(comm);
      kolo::barrier(comm);
    });
  });
  for (const auto& words : said) CHECK(contains(words, "rank"));
}

}  // namespace

TEST_CASE("mismatch: two roots that wait for each other, and neither sends") {
  const auto reduce_to = [](int root) {
    return [root](auto& comm) {
      int x[10]{};
      kolo::reduce(comm, x, x, kolo::sum, root);
    };
  };
  const auto gather_to = [](std::size_t count, int root) {
    return [count, root](auto& comm) {
      const std::vector<int> x(count);
      std::vector<int> all(count * static_cast<std::size_t>(comm.size()));
      kolo::gather(comm, x, all, root);
    };
  };
  for (const int p : {2, 3, 5}) {
    CHECK(contains(disagreement(p, reduce_to(0), reduce_to(1)),
                   "calls it with another count, type, operator, algorithm, root"));
    for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}})
      CHECK(contains(disagreement(p, gather_to(count, 0), gather_to(count, 1)), " calls gather, rank "));
  }
}

TEST_CASE("mismatch: another root, unnoticed in its own call, is noticed in the next") {
  for (const int p : {3, 4, 5, 8}) CHECK(contains(disagreement(p, from(0), from(1)), "rank"));
  check_own_root([](int p, auto f) { run_message_threads(p, f); });
  check_own_root([](int p, auto f) { kolo::virtual_time::run(p, kolo::simulate::network{}, f); });
}

TEST_CASE("mismatch: another root in every call is noticed when the slots are full, or in the call after them") {
  const auto five_from = [](int root) {
    return [root](auto& comm) {
      int x[100]{};  // longer than a line
      for (int k = 0; k < 5; ++k) kolo::broadcast(comm, x, root);
    };
  };
  for (const int p : {2, 3, 5}) {
    const auto words = disagreement(p, five_from(0), five_from(1));
    INFO(words);
    CHECK(contains(words, p == 2 ? "calls it as its operation #1"
                                 : "calls it"));  // a third rank may notice it in its own first call
  }
}

TEST_CASE("mismatch: calls that move no data must be the same, too") {
  const auto empty = [](int root) { return [root](auto& comm) { kolo::broadcast(comm, std::span<int>{}, root); }; };
  for (const int p : {2, 3, 5})
    CHECK(
        contains(disagreement(p, empty(0), empty(1)),
                 "calls it with another count, type, operator, algorithm, root or optimizer, now or in a call before"));
}

TEST_CASE("mismatch: a difference several calls ago is still noticed") {
  const auto words = disagreement(
      3,
      [](auto& comm) {
        from(0)(comm);
        for (int k = 0; k < 3; ++k) from(2)(comm);
      },
      [](auto& comm) {
        from(1)(comm);
        for (int k = 0; k < 3; ++k) from(2)(comm);
      });
  INFO(words);
  CHECK(contains(words, "rank 1"));  // in which call depends on timing
}

TEST_CASE("mismatch: another parameter of an algorithm, or other counts of another rank's part") {
  const auto in_parts = [](int segments) {
    return [segments](auto& comm) {
      int x[12]{};
      kolo::reduce(comm, x, x, kolo::sum, 0, kolo::chain{.segments = segments});
    };
  };
  CHECK(contains(disagreement(3, in_parts(2), in_parts(3)), "calls it with another"));
  const auto parts = [](std::vector<int> counts) {
    return [counts](auto& comm) {
      std::vector<int> in(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())])), all(6);
      kolo::gather(comm, in, all, counts, 0);
    };
  };
  CHECK(contains(disagreement(3, parts({2, 2, 2}), parts({1, 2, 3})), "calls it with another"));
}

TEST_CASE("mismatch: the same calls in another order") {
  const auto words = disagreement(
      3,
      [](auto& comm) {
        sum_of_ten(comm);
        kolo::barrier(comm);
      },
      [](auto& comm) {
        kolo::barrier(comm);
        sum_of_ten(comm);
      });
  CHECK((contains(words, "calls barrier") || contains(words, "calls allreduce")));
}

TEST_CASE("mismatch: a missing call") {
  const auto words = disagreement(
      3,
      [](auto& comm) {
        sum_of_ten(comm);
        sum_of_ten(comm);
      },
      sum_of_ten);
  CHECK(contains(words, "rank 1"));
}

TEST_CASE("a peer that is ahead is no mismatch, also where the numbers of calls wrap around") {
  const kolo::detail::shm::region_shape shape{3, {.timeout = 60s}};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::communicator root{memory, region, shape, 0}, ahead{memory, region, shape, 2};
  for (auto* comm : {&root, &ahead}) comm->engine()->sequence = 0xfffffffeu;  // a tag has the lower 32 bits of it
  std::vector<int> x(8), all(24);
  auto first = kolo::start_gather(ahead, x, std::span<int>{}, 0),
       second = kolo::start_gather(ahead, x, std::span<int>{}, 0);
  while (!first.test() || !second.test()) {
  }
  auto waits = kolo::start_gather(root, x, all, 0, {.timeout = 300ms});
  CHECK(end_of([&] { waits.wait(); }) == "timeout 1");  // and no mismatch
}

TEST_CASE(
    "a peer that does something else at one check is no mismatch yet: it may have done its part since the last poll") {
  const auto end_before_a_second_check = [] {
    const kolo::detail::shm::region_shape shape{2, {.timeout = 60s}};
    kolo::detail::shm::private_mapping memory;
    const auto region = kolo::threads::transport::initialise(memory, shape);
    kolo::threads::communicator waits{memory, region, shape, 0}, sends{memory, region, shape, 1};
    std::vector<int> more(1000), x(4), y(4);
    kolo::send(sends, more, 0);  // neither this nor the broadcast waits, or uses the memory of an exchange
    kolo::broadcast(sends, x, 1);
    return end_of([&] { kolo::exchange(waits, x, y, 1, {.timeout = 1ms}); });
  };
  std::string end;  // a thread that does not run for 100 ms puts its deadline off, and checks again
  for (int tries = 0; tries < 5 && end != "timeout 1"; ++tries) end = end_before_a_second_check();
  CHECK(end == "timeout 1");
}

TEST_CASE("mismatch: split against another call") {
  const auto split = [](auto& comm) { comm.split(0, 0); };
  for (const int p : {2, 3, 4, 5}) {  // five ranks use boards
    CHECK(contains(disagreement(p, sum_of_ten, split), "split"));
    CHECK(contains(disagreement(p, split, sum_of_ten), "calls split, rank 1 something else"));
  }
  const auto symmetric = [](auto& comm) { kolo::symmetric<int>(comm, 10); };  // a longer item
  CHECK(contains(disagreement(2, symmetric, split), "calls symmetric, rank 1 something else"));
  CHECK(contains(disagreement(2, split, symmetric), "calls split, rank 1 something else"));
}

TEST_CASE("mismatch: ragged parts that do not fit together") {
  const auto words = disagreement(
      3,
      [](auto& comm) {
        std::vector<int> in(6), out(6);
        const std::vector<int> two(3, 2);
        kolo::alltoall(comm, in, out, two, two);
      },
      [](auto& comm) {
        std::vector<int> in(8), out(6);
        kolo::alltoall(comm, in, out, std::vector<int>{3, 2, 3}, std::vector<int>(3, 2));
      });
  CHECK(contains(words, "another count"));
}

namespace {
/// Rank 0's error in an alltoall with these counts. After this call the other ranks wait until rank 0's has ended. A rank without counts does not call.
std::string said_by_rank_0(const std::vector<std::vector<std::size_t>>& sent,
                           const std::vector<std::vector<std::size_t>>& received) {
  std::latch given_up{1};
  return on_threads(static_cast<int>(sent.size()), [&](auto& comm) {
    const auto me = static_cast<std::size_t>(comm.rank());
    const auto all = [](const std::vector<std::size_t>& counts) {
      return std::vector<int>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    };
    auto in = all(sent[me]), out = all(received[me]);
    const auto words = words_of([&] {
      if (!sent[me].empty()) kolo::alltoall(comm, in, out, sent[me], received[me]);
    });
    comm.rank() == 0 ? given_up.count_down() : given_up.wait();
    return words;
  })[0];
}
}  // namespace

TEST_CASE("mismatch: a ragged part that its receiver does not expect is noticed before the deadline") {
  const auto differs = "rank 1 calls it with another count";
  CHECK(contains(said_by_rank_0({{0, 5}, {3, 0}}, {{0, 3}, {0, 0}}), differs));  // an exchange for rank 0
  CHECK(contains(said_by_rank_0({{0, 0}, {3, 0}}, {{0, 3}, {5, 0}}), differs));  // no exchange for rank 0
  for (const auto n : {std::size_t{0}, std::size_t{5}})                          // nothing is expected from rank 1
    CHECK(contains(said_by_rank_0({{0, 0, 0}, {3, 0, 0}, {}}, {{0, 0, 3}, {n, 0, 0}, {}}), differs));
  CHECK(said_by_rank_0({{0, 5}, {3, 0}}, {{0, 3}, {5, 0}}) == "");
}

TEST_CASE("mismatch: allgather with different counts") {
  const auto words = disagreement(
      2,
      [](auto& comm) {
        std::vector<int> in(2), out(5);
        kolo::allgather(comm, in, out, std::vector<int>{2, 3});
      },
      [](auto& comm) {
        std::vector<int> in(2), out(5);
        kolo::allgather(comm, in, out, std::vector<int>{3, 2});
      });
  CHECK(contains(words, "another count"));
}

TEST_CASE("mismatch: symmetric memory of different lengths") {
  const auto said = on_threads(
      3, [](auto& comm) { return end_of([&] { kolo::symmetric<float>(comm, comm.rank() == 1 ? 10 : 20); }); });
  for (const auto& words : said) CHECK(words != "fine");
}
