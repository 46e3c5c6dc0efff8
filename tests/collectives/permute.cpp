// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shift and permute on 1 to 17 ranks, over slots and messages, in each call mode; and their errors.
#include <kolo/explain.hpp>
#include <kolo/simulate.hpp>

#include <atomic>
#include <chrono>
#include <limits>

#include "collectives/permutations.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/refers_to_nothing.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// A broadcast whose key is a number other than its root.
struct numbered : kolo::one_shot::broadcast {
  int number = 1;
  constexpr int key() const { return number; }
};

}  // namespace

TEST_CASE("shift, permute: each rank gets its source's elements") {
  for (const int p : rank_counts)
    CHECK(on_ranks(p, [&](auto& comm, complaints& wrong) {
            for (const std::size_t n : {0U, 1U, 17U, 1009U}) every_permutation(comm, wrong, n);
          }) == "");
}

TEST_CASE("shift, permute: vectors that are cut into pieces") {
  for (const int p : {2, 3, 5, 8})
    CHECK(on_ranks(
              p, [&](auto& comm, complaints& wrong) { every_permutation(comm, wrong, 211); }, small_slot) == "");
  for (const int p : {2, 3})
    CHECK(on_ranks(p, [&](auto& comm, complaints& wrong) { every_permutation(comm, wrong, 100'003); }) == "");
}

TEST_CASE("shift, reduce_scatter: each piece of a vector larger than the caches goes in a spare buffer") {
  CHECK(on_ranks(2, [](auto& host, complaints& wrong) {
          kolo::communicator<refers_to_nothing> comm{refers_to_nothing{host.transport().split(0, host.rank())}};
          constexpr std::size_t n = 4'300'001;
          const auto value = [](int rank, std::size_t i) { return static_cast<int>(i % 8191) + 10'000 * rank; };
          const auto mine = filled<int>(n, [&](std::size_t i) { return value(comm.rank(), i); });
          std::vector<int> theirs(n), sums(n / 2 + (comm.rank() == 0 ? 1 : 0));
          const auto all_are_spare = [&](const char* name) {
            const auto& t = comm.transport();
            wrong.expect(t.pieces > 100 && t.spares == t.pieces,
                         std::string{name} + ": " + std::to_string(t.spares) + " of " + std::to_string(t.pieces));
          };
          kolo::shift(comm, mine, theirs, 1);
          all_are_spare("shift");
          expect_same(wrong, "shift", comm.rank(), theirs,
                      filled<int>(n, [&](std::size_t i) { return value(1 - comm.rank(), i); }));
          kolo::reduce_scatter(comm, mine, sums, kolo::sum);
          all_are_spare("reduce_scatter");
          expect_same(wrong, "reduce_scatter", comm.rank(), sums, filled<int>(sums.size(), [&](std::size_t i) {
                        const auto k = i + (comm.rank() == 0 ? 0 : n / 2 + 1);
                        return value(0, k) + value(1, k);
                      }));
        }) == "");
}

TEST_CASE("shift: views that are not contiguous") {
  CHECK(on_ranks(3, [&](auto& comm, complaints& wrong) {
          std::vector<int> a{comm.rank(), 1}, b{comm.rank() + 10}, out(6, -1);
          const kolo::strided<int, 1> every_other{out.data(), {3}, {2}};
          kolo::shift(comm, kolo::bucket{a, b}, every_other, 1);
          const int from = (comm.rank() + 2) % 3;
          expect_same(wrong, "strided", comm.rank(), out, {from, -1, 1, -1, from + 10, -1});
        }) == "");
}

TEST_CASE("shift: distances of any type and size") {
  for (const int p : {1, 2, 3, 5, 7})
    CHECK(on_ranks(p, [&](auto& comm, complaints& wrong) {
            const auto mine = part_of_rank(comm.rank(), 3);
            const auto shifted = [&](auto distance, int remainder) {
              std::vector<int> out(3);
              kolo::shift(comm, mine, out, distance);
              expect_same(wrong, "shift by " + std::to_string(distance), comm.rank(), out,
                          part_of_rank(kolo::mod(comm.rank() - remainder, p), 3));
            };
            using signed_limits = std::numeric_limits<long long>;
            constexpr auto most = std::numeric_limits<unsigned long long>::max();
            enum unsigned_distance : unsigned long long { far = most - 1 };
            shifted(most, static_cast<int>(most % static_cast<unsigned>(p)));
            shifted(far, static_cast<int>((most - 1) % static_cast<unsigned>(p)));
            shifted(signed_limits::max(), static_cast<int>(signed_limits::max() % p));
            shifted(signed_limits::min(), static_cast<int>(signed_limits::min() % p));
            shifted(static_cast<unsigned char>(255), 255 % p);
            shifted(static_cast<short>(-7), -7 % p);
          }) == "");
}

TEST_CASE("shift, permute: invalid arguments are refused, with the call's name") {
  const auto named = [](auto call) {
    return words_of([&] { kolo::threads::run(1, [&](auto& comm) { call(comm); }); });
  };
  std::vector<int> four(4), three(3), out(4);
  CHECK(named([&](auto& comm) { kolo::shift(comm, four, three, 1); }) ==
        "kolo: shift #1, rank 0: in has 4 elements, and out has 3");
  CHECK(named([&](auto& comm) { kolo::shift(comm, four, out, 1, {.timeout = -1s}); }) ==
        "kolo: shift #1, rank 0: the timeout is negative; a call without .timeout has the communicator's");
  CHECK(named([&](auto& comm) { kolo::shift(comm, four, four, 1); }) == "kolo: shift #1, rank 0: in and out overlap");
  CHECK(named([&](auto& comm) { kolo::permute(comm, four, three, [](int r, int) { return r; }); }) ==
        "kolo: permute #1, rank 0: in has 4 elements, and out has 3");
  CHECK(on_ranks(3, [&](auto& comm, complaints& wrong) {
          std::vector<int> x(4), y(4);
          const auto end = end_of([&] { kolo::permute(comm, x, y, [](int, int) { return 0; }); });
          wrong.expect(
              end.find("invalid argument") != std::string::npos || end.find("peer failed") != std::string::npos,
              "a map that is no permutation: " + end);
        }) == "");
  CHECK(on_ranks(1, [&](auto& comm, complaints& wrong) {
          std::vector<int> x(4), y(3);
          wrong.expect(end_of([&] { kolo::shift(comm, x, y, 1); }).find("invalid") == 0, "lengths");
        }) == "");
  CHECK(on_ranks(1, [&](auto& comm, complaints& wrong) {
          std::vector<int> x(4);
          wrong.expect(
              end_of([&] { kolo::shift(comm, std::span{x}.first(3), std::span{x}.last(3), 1); }).find("invalid") == 0,
              "overlap");
        }) == "");
}

TEST_CASE("shift: ranks with different distances get a mismatch") {
  for (const int p : {2, 3}) {
    std::string text;
    try {
      kolo::threads::run(p, [&](kolo::threads::communicator& comm) {
        std::vector<int> x(4), y(4);
        kolo::shift(comm, x, y, comm.rank() == 0 ? 0 + p + 1 : 2 * p + 2);
        kolo::barrier(comm);
      });
    } catch (const kolo::error& e) {
      text = std::to_string(e.code() == kolo::errc::mismatch) + e.what();
    }
    CHECK(text.substr(0, 1) == "1");
  }
}

TEST_CASE("shift: checked ranks get the difference of their distances before any data moves") {
  const auto words = words_of([] {
    kolo::threads::run(3,
                       [](kolo::threads::communicator& comm) {
                         std::vector<int> x(4), y(4);
                         kolo::shift(comm, x, y, 1);
                         kolo::shift(comm, x, y, comm.rank() == 1 ? 2 : 1);
                       },
                       {.checked = true});
  });
  CHECK(words.find("shift #2") != std::string::npos);
  CHECK(words.find("the distance or map differs: rank 0 calls shift of 4 int, at ") != std::string::npos);
}

TEST_CASE("permute: equal maps of different types are the same call, checked or not") {
  for (const bool checked : {false, true}) {
    const auto words = words_of([&] {  // outside of CHECK, in which clang++ gives all lambdas one name
      kolo::threads::run(2,
                         [](kolo::threads::communicator& comm) {
                           std::vector<int> x(4), y(4);
                           if (comm.rank() == 0) kolo::permute(comm, x, y, [](int r, int p) { return p - 1 - r; });
                           else kolo::permute(comm, x, y, [](int r, int) { return 1 - r; });
                         },
                         {.checked = checked});
    });
    CHECK(words == "");
  }
}

namespace {
/// Two ranks exchange their vectors, and then what they have got; or the same vectors again.
template <bool Back>
struct exchanged_twice {
  static constexpr auto collective = kolo::kind::permutation;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 2; }
  static constexpr bool supports(int p) { return p == 2; }
  static constexpr int source(int r, int) { return Back ? r : 1 - r; }
  static constexpr kolo::step at(int r, int, int k) {
    return kolo::transfer{.to = 1 - r, .send = {Back && k == 1 ? 1 : 0, 1}, .from = 1 - r, .receive = {1, 1}};
  }
};
}  // namespace

TEST_CASE("permute: schedules that differ after their first round are different calls") {
  const auto words = words_of([] {
    kolo::threads::run(2, [](kolo::threads::communicator& comm) {
      std::vector<int> x(4), y(4);
      if (comm.rank() == 0) kolo::permute(comm, x, y, exchanged_twice<true>{});
      else kolo::permute(comm, x, y, exchanged_twice<false>{});
    });
  });
  CHECK(words.find("algorithm") != std::string::npos);
}

TEST_CASE("shift: a rank that does not call it is named") {
  std::atomic<bool> over{false};
  std::string end;
  end_of([&] {
    kolo::threads::run(2,
                       [&](kolo::threads::communicator& comm) {
                         if (comm.rank() == 1) return over.wait(false);
                         std::vector<int> x(4), y(4);
                         end = words_of([&] { kolo::shift(comm, x, y, 1); });
                         over = true;
                         over.notify_all();
                       },
                       {.timeout = std::chrono::milliseconds{200}});
  });
  CHECK(end.starts_with("kolo: shift #1, round 0, rank 0: rank 1 "));
}

TEST_CASE("a simulated permutation takes one message per rank") {
  const kolo::simulate::network wire{};
  const double once = kolo::simulate::run(kolo::shifted<1>{}, 8, 1 << 20, wire);
  CHECK(once == Approx(wire.alpha() + (1 << 20) * wire.seconds_per_byte));
  CHECK(kolo::simulate::run(kolo::shifted<0>{}, 8, 1 << 20, wire) == 0);
}

TEST_CASE("explain refuses permutation, for which no algorithm is chosen") {
  CHECK(on_ranks(2, [](auto& comm, complaints& wrong) {
          const auto end = end_of([&] { kolo::explain(comm, kolo::kind::permutation, 1000); });
          wrong.expect(end.find("invalid argument") == 0, end);
        }) == "");
}

TEST_CASE("broadcast: small calls are cached by their schedule's key as well as by their root") {
  CHECK(on_ranks(3, [](auto& comm, complaints& wrong) {
          for (const auto& [root, number] : {std::pair{0, 2}, std::pair{1, 1}, std::pair{2, 0}, std::pair{1, 1}}) {
            int x[] = {comm.rank()};
            kolo::broadcast(comm, x, root, numbered{{}, number});
            wrong.expect(x[0] == root, "root " + std::to_string(root) + ": from " + std::to_string(x[0]));
          }
        }) == "");
}
