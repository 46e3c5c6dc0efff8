// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Invalid arguments on one rank: an error with a message there, a failure on the others, and a communicator that reports it from then on.
#include <kolo/point_to_point.hpp>
#include <kolo/scaled.hpp>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

#include <algorithm>

using namespace testing;

namespace {

/// Rank 1 calls `bad`, the others `good`.
template <class Good, class Bad>
std::vector<std::string> refusal(int p, Good good, Bad bad) {
  return on_threads(p, [&](auto& comm) {
    return end_and_next(comm, [&] {
      if (comm.rank() == 1) bad(comm);
      else good(comm), kolo::barrier(comm);
    });
  });
}
std::vector<std::string> refused(int p) {
  return all_but(1, p, "peer failed 1, then peer failed 1", "invalid argument 1, then peer failed 1");
}

const auto barrier = [](auto& comm) { kolo::barrier(comm); };

template <class Bad>
void expect_refused(Bad bad) {
  for (const int p : {2, 3}) CHECK(refusal(p, barrier, bad) == refused(p));
}

/// The message of a refusal by a single rank, which can go on: it has no peers.
template <class Bad>
std::string sentence(Bad bad) {
  return on_threads(1, [&](auto& comm) {
    const auto words = words_of([&] { bad(comm); });
    kolo::barrier(comm);
    return words;
  })[0];
}

std::vector<int> vector_of(std::size_t n) { return std::vector<int>(n); }

/// Supports two ranks and more; its shape is known at run time only.
struct not_for_one {
  static constexpr auto collective = kolo::kind::allreduce;
  int vectors = 1;
  bool supports(int p) const { return p > 1; }
  int blocks(int p) const { return vectors / (p - 1); }
  int rounds(int) const { return 1; }
  kolo::step at(int r, int p, int) const {
    if (p == 1) throw std::logic_error{"a schedule is asked about one rank"};
    return kolo::one_shot::allreduce{}.at(r, p, 0);
  }
};

/// Moves nothing.
struct shaped {
  static constexpr auto collective = kolo::kind::allgather;
  int all_blocks, all_rounds;
  int blocks(int) const { return all_blocks; }
  int rounds(int) const { return all_rounds; }
  kolo::step at(int, int, int) const { return {}; }
};

}  // namespace

namespace {
/// Has ten elements by its size, and gives five.
struct gap {
  using element_type = int;
  std::span<int> data_of;
  std::size_t size() const { return data_of.size(); }
  std::span<int> run(std::size_t i) const { return i < 5 ? data_of.subspan(i, 5 - i) : std::span<int>{}; }
};
}  // namespace

TEST_CASE("a view that ends too early is refused") {
  for (const int p : {1, 2, 3}) {
    const auto ends = on_threads(p, [](auto& comm) {
      auto x = vector_of(10);
      return end_of([&] { kolo::allreduce(comm, gap{x}, kolo::sum); });
    });
    const auto is = [](const char* what) { return [what](const std::string& end) { return end.starts_with(what); }; };
    CHECK(std::any_of(ends.begin(), ends.end(),
                      is("invalid argument")));  // the others may get the failure before they begin
    CHECK(std::none_of(ends.begin(), ends.end(), is("fine")));
  }
}

TEST_CASE("elements at the null pointer are refused") {
  const auto nowhere = std::span{static_cast<int*>(nullptr), 3};
  expect_refused([&](auto& comm) { kolo::allreduce(comm, nowhere, kolo::sum); });
  expect_refused([&](auto& comm) { kolo::broadcast(comm, nowhere, 0); });
  expect_refused([&](auto& comm) { kolo::send(comm, nowhere, 0); });
}

TEST_CASE("elements at the null pointer are accepted where they matter on the root only") {
  const auto said = on_threads(3, [](auto& comm) {
    const bool is_root = comm.rank() == 0;
    int one[1]{1}, all[3]{1, 1, 1};
    const auto at_root = [&](std::span<int> x) {
      return is_root ? x : std::span{static_cast<int*>(nullptr), x.size()};
    };
    return end_of([&] {
      kolo::gather(comm, one, at_root(all), 0);
      kolo::reduce(comm, one, at_root(all).first(1), kolo::sum, 0);
      kolo::scatter(comm, at_root(all), one, 0);
    });
  });
  CHECK(said == all_say(3, "fine"));
}

TEST_CASE("negative counts are refused") {
  expect_refused([](auto& comm) {
    std::vector<int> counts(static_cast<std::size_t>(comm.size()), -1);
    auto in = vector_of(1), out = vector_of(1);
    kolo::allgather(comm, in, out, counts);
  });
}

TEST_CASE("views of different lengths are refused") {
  expect_refused([](auto& comm) {
    auto in = vector_of(3), out = vector_of(4);
    kolo::allreduce(comm, in, out, kolo::sum);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(3), out = vector_of(4);
    kolo::scan(comm, in, out, kolo::sum);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(3), out = vector_of(5);
    kolo::allgather(comm, in, out);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(12), out = vector_of(1);
    kolo::reduce_scatter(comm, in, out, kolo::sum);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(7), out = vector_of(7);
    kolo::alltoall(comm, in, out);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(3), out = vector_of(4);
    kolo::reduce(comm, in, out, kolo::sum, 1);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(3), out = vector_of(4);
    kolo::gather(comm, in, out, 1);
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(3), out = vector_of(4);
    kolo::scatter(comm, in, out, 1);
  });
}

TEST_CASE("in and out that overlap are refused") {
  expect_refused([](auto& comm) {
    auto x = vector_of(10);
    kolo::allreduce(comm, std::span{x}.first(6), std::span{x}.subspan(1, 6), kolo::sum);
  });
  expect_refused([](auto& comm) {  // in groups, each of which is copied where it is not full
    std::vector<float> x(100);
    const auto op = kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::sum);
    kolo::allreduce(comm, std::span{x}.first(64), std::span{x}.subspan(32, 64), op);
  });
  expect_refused([](auto& comm) {
    auto x = vector_of(10);
    kolo::exclusive_scan(comm, x, x, kolo::sum);
  });
  expect_refused([](auto& comm) {
    auto x = vector_of(12);
    kolo::alltoall(comm, x, x);
  });
  expect_refused([](auto& comm) {  // this rank's part begins at 2, not at 1
    const auto p = static_cast<std::size_t>(comm.size());
    auto x = vector_of(2 * p);
    kolo::allgather(comm, std::span{x}.subspan(1, 2), x);
  });
  expect_refused([](auto& comm) {
    auto x = vector_of(12);
    const auto mine = kolo::block(12, comm.size(), comm.rank());
    kolo::reduce_scatter(comm, x, std::span{x}.subspan(mine.first - 1, mine.count), kolo::sum);
  });
}

TEST_CASE("a root that is no rank is refused") {
  const auto with_root = [](auto root) {
    return [root](auto& comm) {
      auto x = vector_of(3);
      kolo::broadcast(comm, x, root);
    };
  };
  expect_refused(with_root(-1));
  expect_refused(with_root(3));
  expect_refused(with_root(std::size_t{3}));
  expect_refused(with_root(std::int64_t{1} << 32));
  expect_refused([](auto& comm) {
    auto x = vector_of(3);
    kolo::reduce(
        comm, x, x, [](int a, int b) { return a + b; }, 17);
  });
  expect_refused([](auto& comm) {
    auto x = vector_of(3);
    kolo::gather(comm, x, x, -1);
  });
}

TEST_CASE("counts that do not add up are refused") {
  expect_refused([](auto& comm) {
    auto in = vector_of(2), out = vector_of(4);
    kolo::allgather(comm, in, out, std::vector<int>{2, 2, 2, 2});  // too many
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(2), out = vector_of(4);
    kolo::allgather(comm, in, out, std::vector<int>(static_cast<std::size_t>(comm.size()), 3));
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(2), out = vector_of(4);
    kolo::allgather(comm, in, out, std::vector<int>(static_cast<std::size_t>(comm.size()), -2));
  });
  expect_refused([](auto& comm) {
    auto in = vector_of(4), out = vector_of(4);
    kolo::alltoall(comm, in, out, std::vector<int>(static_cast<std::size_t>(comm.size()), 1), std::vector<int>{4});
  });
  expect_refused([](auto& comm) {  // they add up modulo 2^64, but the offsets are not sorted
    auto in = vector_of(4), out = vector_of(4);
    std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()));
    counts.front() = static_cast<std::size_t>(-2), counts.back() = 6;
    kolo::alltoall(comm, in, out, counts, counts);
  });
}

TEST_CASE("more elements than can be counted are refused") {
  int x = 0;
  std::vector<int> none;
  const kolo::strided<int, 2> many{&x, {std::int64_t{1} << 62, 2}, {0, 0}};  // on two ranks a multiple of 2^64
  CHECK(refusal(2, barrier, [&](auto& comm) { kolo::allgather(comm, many, none); }) == refused(2));
  CHECK(refusal(2, barrier, [&](auto& comm) { kolo::gather(comm, many, none, 1); }) == refused(2));
  CHECK(refusal(2, barrier, [&](auto& comm) { kolo::scatter(comm, none, many, 1); }) == refused(2));
}

TEST_CASE("an algorithm that does not support this number of ranks is refused") {
  CHECK(refusal(3, barrier, [](auto& comm) {
          auto in = vector_of(1), out = vector_of(3);
          kolo::allgather(comm, in, out, kolo::recursive_doubling{});
        }) == refused(3));
  expect_refused([](auto& comm) {
    auto x = vector_of(3);
    kolo::broadcast(comm, x, 0, kolo::chain{.segments = 0});
  });
}

TEST_CASE("a refused algorithm is named, with the number of ranks") {
  const auto words = on_threads(3, [](auto& comm) {
    return words_of([&] {
      auto in = vector_of(1), out = vector_of(3);
      kolo::allgather(comm, in, out, kolo::recursive_doubling{});
    });
  });
  for (const auto& each : words)
    CHECK(each.find(": the algorithm, with its parameters, does not support 3 ranks: recursive_doubling::allgather") !=
          std::string::npos);
}

TEST_CASE("an algorithm whose blocks or rounds do not suit an allgather is refused") {
  for (const shaped& wrong : {shaped{0, 1}, shaped{5, 1}, shaped{6, -1}})
    expect_refused([wrong](auto& comm) {
      auto in = vector_of(1), out = vector_of(static_cast<std::size_t>(comm.size()));
      kolo::allgather(comm, in, out, wrong);
    });
}

TEST_CASE("a communicator that was moved from refuses every call, and may be assigned to") {
  CHECK(on_threads(2, [&](auto& comm) {
          const auto refuses = [](auto call) {
            return words_of(call) == "kolo: this communicator was moved from: use the one that it was moved to";
          };
          auto x = vector_of(1);
          auto first = comm.split(0, comm.rank()), second = std::move(first);
          const bool all = refuses([&] { kolo::allreduce(first, x, kolo::sum); }) &&  // NOLINT
                           refuses([&] { (void)kolo::start_barrier(first); }) &&      //
                           refuses([&] { (void)kolo::plan_barrier(first); }) &&       //
                           refuses([&] { (void)first.rank(); }) && refuses([&] { (void)first.size(); }) &&
                           refuses([&] { (void)first.split(0, 0); }) && refuses([&] { (void)first.shrink(); }) &&
                           refuses([&] { (void)first.failed(); }) && refuses([&] { (void)first.take_choices(); }) &&
                           refuses([&] { (void)first.buffers_in_use(); });
          first = std::move(second);
          kolo::barrier(first);
          return std::string{all ? "refused" : "not refused"};
        }) == std::vector<std::string>(2, "refused"));
}

TEST_CASE("a call of one rank does not use its algorithm") {
  CHECK(sentence([](auto& comm) {
          std::vector<float> x{5};
          kolo::allreduce(comm, x, kolo::sum, not_for_one{});
          kolo::allreduce(comm, x, kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::sum), not_for_one{});
          if (x[0] != 5) throw std::runtime_error{"another number"};
        }) == "");
}

TEST_CASE("ragged parts that ranks would have to forward without knowing their lengths are refused") {
  expect_refused([](auto& comm) {
    const std::vector<int> ones(static_cast<std::size_t>(comm.size()), 1);
    auto in = vector_of(ones.size()), out = vector_of(ones.size());
    kolo::alltoall(comm, in, out, ones, ones, kolo::bruck{});
  });
}

TEST_CASE("an element that is larger than a slot is refused") {
  struct large {
    char bytes[200];
  };
  const auto said = on_threads(2,
                               [](auto& comm) {
                                 large x[1]{};
                                 return end_of([&] { kolo::broadcast(comm, x, 0); });
                               },
                               {.timeout = std::chrono::seconds{20}, .slot_bytes = 128});
  for (const auto& words : said) CHECK((words.starts_with("invalid argument") || words.starts_with("peer failed")));
}

TEST_CASE("the message says what is wrong, and a single rank goes on") {
  CHECK(sentence([](auto& comm) {
          auto in = vector_of(3), out = vector_of(4);
          kolo::allreduce(comm, in, out, kolo::sum);
        }) == "kolo: allreduce #1, rank 0: in has 3 elements, and out has 4");
  CHECK(sentence([](auto& comm) {
          auto in = vector_of(3), out = vector_of(4);
          kolo::reduce_scatter(comm, in, out, kolo::sum);
        }).ends_with("out has 4 elements, and this rank's block of in, kolo::block(n, p, r), has 3"));
  CHECK(sentence([](auto& comm) {
          auto x = vector_of(3);
          kolo::broadcast(comm, x, 1);
        }).find("the root is 1, and this communicator has ranks 0 to 0") != std::string::npos);
  CHECK(sentence([](auto& comm) {
          auto in = vector_of(3), out = vector_of(3);
          kolo::allgather(comm, in, out, std::vector<int>{3, 0});
        }).ends_with("there must be one count per rank, in all 1; given: 2"));
}

TEST_CASE("a started call is refused at once, and fails on the others") {
  for (const int p : {2, 3})
    CHECK(refusal(p, barrier, [](auto& comm) {
            auto in = vector_of(3), out = vector_of(4);
            auto request = kolo::start_allreduce(comm, in, out, kolo::sum);
          }) == refused(p));
}
