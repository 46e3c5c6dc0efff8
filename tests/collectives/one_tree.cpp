// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// order::fixed_for_any_count: the bits of an element depend only on its operands and the number of ranks. order::tree: nor on the number of ranks.
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>
#include <kolo/kolo.hpp>
#include <kolo/simulate/simulated.hpp>

#include <random>
#include <string>
#include <vector>

#include "collectives/ranks.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace kolo;
using namespace testing;

namespace {

constexpr auto for_any_count = ordered<order::fixed_for_any_count>(automatic{});
constexpr std::size_t kinds_of_elements = 61;
#ifdef KOLO_SANITIZED
constexpr int share = 5;  // a fifth of the calls: more calls only use other values in the same memory
#else
constexpr int share = 1;
#endif

/// The operand of rank r for an element of this kind. Magnitudes differ, so different orders round differently.
float operand(std::size_t element, int r) {
  std::minstd_rand random{static_cast<unsigned>(1000 * element + static_cast<std::size_t>(r)) * 2654435761u};
  random();
  return std::ldexp(static_cast<float>(random() % 8192) / 4096 - 1, static_cast<int>(random() % 12));
}

/// Makes random calls on elements of the kinds shift, shift + 1, ...; each element must have the bits of the first call. Returns a digest of these.
template <class T, class C, class F>
std::string same_elements(C& comm, int calls, std::size_t longest, F call) {
  const auto repeated = [&](const std::vector<T>& once) {  // so that any part is copied and compared at once
    std::vector<T> all(once);
    while (all.size() < longest + 2 * once.size()) all.insert(all.end(), once.begin(), once.end());
    return all;
  };
  std::vector<T> kinds(kinds_of_elements);
  for (std::size_t e = 0; e < kinds.size(); ++e) kinds[e] = T(operand(e, comm.rank()));
  const auto mine = repeated(kinds);
  const auto called = [&](std::size_t n, std::size_t shift, int root) {
    const auto begin = mine.begin() + static_cast<std::ptrdiff_t>(shift);
    std::vector<T> in(begin, begin + static_cast<std::ptrdiff_t>(n)), out(n);
    const extent there = call(in, out, root);
    return std::pair{std::vector<T>(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(there.count)), there.first};
  };
  const auto known = [&] {  // the result of each kind of element, at whatever index
    std::vector<T> all(kinds.size());
    for (std::size_t shift = 0; shift < all.size(); ++shift) {
      const auto [part, first] = called(all.size(), shift, 0);
      for (std::size_t i = 0; i < part.size(); ++i) all[(first + i + shift) % all.size()] = part[i];
    }
    return all;
  }();
  const auto should = repeated(known);
  std::mt19937 random{7};
  for (int k = 0; k < calls / share; ++k) {
    const auto bits = std::uniform_real_distribution<>{0, std::log2(static_cast<double>(longest))}(random);
    const auto n = static_cast<std::size_t>(std::exp2(bits));
    const std::size_t shift = random() % kinds.size();
    const auto [part, first] = called(n, shift, static_cast<int>(random() % static_cast<unsigned>(comm.size())));
    if (!part.empty() &&
        std::memcmp(part.data(), &should[(first + shift) % kinds.size()], part.size() * sizeof(T)) != 0)
      return "an element of " + std::to_string(n) + " from " + std::to_string(first) + " has other bits";
  }
  std::uint64_t digest = 0;
  for (const T& x : known) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    digest = (digest ^ bits) * 0x9e3779b97f4a7c15u;
  }
  return std::to_string(digest);
}

/// An allreduce of T.
template <class T, class Op>
auto sums(int calls, std::size_t longest, Op op) {
  return [=](auto& comm) {
    return same_elements<T>(comm, calls, longest, [&](auto& in, auto& out, int) {
      allreduce(comm, in, out, op, for_any_count);
      return extent{0, in.size()};
    });
  };
}

/// The ranks' common answer, or two that differ.
template <class Over, class F>
std::string unanimous(int p, F f, std::size_t slot_bytes = usual_slot) {
  std::vector<std::string> said(static_cast<std::size_t>(p));
  const auto thrown = on_ranks<Over>(
      p, [&](auto& comm, complaints&) { said[static_cast<std::size_t>(comm.rank())] = f(comm); }, slot_bytes);
  for (const auto& one : said)
    if (one != said[0]) return said[0] + ", and " + one;
  return thrown + said[0];
}

/// Compares slots, short slots, messages, processes and a simulated network. `many` makes more calls than `few`.
template <class Many, class Few>
void check_everywhere(int p, Many many, Few few) {
  const auto wanted = unanimous<over_slots>(p, many);
  INFO(p << " ranks: " << wanted);
  CHECK(wanted.find_first_not_of("0123456789") == std::string::npos);
  CHECK(unanimous<over_slots>(p, few, small_slot) == wanted);
  CHECK(unanimous<over_messages>(p, few) == wanted);
  CHECK(on_processes(p, few).said == all_say(p, wanted));
  std::string virtually;
  virtual_time::run(p, simulate::network{}, [&](auto& comm) {
    if (auto said = few(comm); comm.rank() == 0) virtually = said;
  });
  CHECK(virtually == wanted);
}

}  // namespace

TEST_CASE("fixed_for_any_count: an element's bits do not depend on length, offset or transport, in 10,000 calls") {
  constexpr int few = is_sanitized ? 5 : 1;  // the divisor of the number of calls
  check_everywhere(4, sums<float>(10'000 / few, 3000, sum), sums<float>(300 / few, 100'000, sum));
  check_everywhere(3, sums<float>(60 / few, 1'000'000, sum), sums<float>(100 / few, 100'000, sum));
  check_everywhere(3, sums<bfloat16>(1000, 30'000, average), sums<bfloat16>(100, 30'000, average));
  check_everywhere(5, sums<float>(1000, 30'000, kolo::wire<bfloat16>(sum)),
                   sums<float>(100, 30'000, kolo::wire<bfloat16>(sum)));
}

TEST_CASE("fixed_for_any_count: the same on 17 ranks, which combine neighbours first") {
  check_everywhere(17, sums<float>(60, 10'000, sum), sums<float>(20, 10'000, sum));
  check_everywhere(17, sums<bfloat16>(60, 10'000, average), sums<bfloat16>(20, 10'000, average));
}

TEST_CASE("fixed_for_any_count: few ranks sum from the left") {
  CHECK(on_ranks(4, [](auto& comm, complaints& wrong) {
          std::vector<float> x(kinds_of_elements);
          for (std::size_t e = 0; e < x.size(); ++e) x[e] = operand(e, comm.rank());
          allreduce(comm, x, sum, for_any_count);
          for (std::size_t e = 0; e < x.size(); ++e)
            wrong.expect(x[e] == ((operand(e, 0) + operand(e, 1)) + operand(e, 2)) + operand(e, 3),
                         "the sum differs from that from the left");
        }) == "");
}

TEST_CASE("fixed_for_any_count: reduce with any root, reduce_scatter and scans") {
  const auto reduced = [](auto& comm) {
    return same_elements<float>(comm, 300, 30'000, [&](auto& in, auto& out, int root) {
      reduce(comm, in, out, sum, root, for_any_count);
      broadcast(comm, out, root);
      return extent{0, in.size()};
    });
  };
  check_everywhere(5, reduced, reduced);
  const auto scattered = [](auto& comm) {
    return same_elements<float>(comm, 300, 30'000, [&](auto& in, auto& out, int) {
      const extent mine = block(in.size(), comm.size(), comm.rank());
      reduce_scatter(comm, in, std::span{out}.first(mine.count), sum, for_any_count);
      return mine;
    });
  };
  check_everywhere(5, scattered, scattered);
  CHECK(on_ranks(5, [](auto& comm, complaints& wrong) {  // each rank has its own sums
          const auto said = same_elements<float>(comm, 300, 30'000, [&](auto& in, auto& out, int) {
            scan(comm, in, out, sum, for_any_count);
            return extent{0, in.size()};
          });
          wrong.expect(said.find("bits") == std::string::npos, said);
        }) == "");
}

TEST_CASE("fixed_for_any_count: a table and a fit select only schedules that combine by the same tree") {
  CHECK(on_ranks(4, [](auto& comm, complaints& wrong) {
          std::vector<float> first;
          for (const double messages : {0.0, 1.0}) {
            tuning table;
            table.rows[0] = {.ranks = 4, .runs_as = pattern::rounds, .round = 1e-9, .message = messages};
            table.rows[0].bytes.fill(1 - messages);
            auto own = comm.split(0, comm.rank());
            use_tuning(own, table);
            std::vector<float> x(5000);
            for (std::size_t e = 0; e < x.size(); ++e) x[e] = operand(e, comm.rank());
            allreduce(own, x, sum, for_any_count);
            if (first.empty()) first = x;
            wrong.expect(std::memcmp(first.data(), x.data(), x.size() * sizeof(float)) == 0, "other bits");
            const auto why = explain(own, kind::allreduce, 20'000, {.allowed = order::fixed_for_any_count});
            wrong.expect(why.candidates.size() == 2 && why.message().find("costs a factor of") != std::string::npos,
                         why.message());
          }
        }) == "");
}

namespace {

constexpr int leaf_count = 8;

/// The sum of the leaves first ... first + count - 1 of an element, neighbours first.
float subtree(std::size_t element, int first, int count) {
  if (count == 1) return operand(element, first);
  return subtree(element, first, count / 2) + subtree(element, first + count / 2, count / 2);
}

template <class C, class F>
void check_tree(C& comm, complaints& wrong, std::size_t n, float divisor, F call) {
  const int mine = leaf_count / comm.size();
  std::vector<float> x(n), wanted(n);
  for (std::size_t e = 0; e < n; ++e) {
    const bool is_new = e < kinds_of_elements;
    x[e] = is_new ? subtree(e, comm.rank() * mine, mine) : x[e - kinds_of_elements];
    wanted[e] = is_new ? subtree(e, 0, leaf_count) / divisor : wanted[e - kinds_of_elements];
  }
  call(x);
  expect_same(wrong, "a tree", comm.rank(), x, wanted);
}

}  // namespace

TEST_CASE("order::tree: 8 leaves give the same bits on 1, 2, 4 and 8 ranks, and an average divides by 8") {
  constexpr auto by_tree = ordered<order::tree<leaf_count>>(automatic{});
  const auto calls = [=](auto& comm, complaints& wrong) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{1009}, std::size_t{50'000}}) {
      check_tree(comm, wrong, n, 1, [&](auto& x) { allreduce(comm, x, sum, by_tree); });
      check_tree(comm, wrong, n, leaf_count, [&](auto& x) { allreduce(comm, x, average, by_tree); });
      check_tree(comm, wrong, n, leaf_count, [&](auto& x) { start_allreduce(comm, x, average, by_tree).wait(); });
      check_tree(comm, wrong, n, leaf_count, [&](auto& x) {
        const int root = comm.size() - 1;
        reduce(comm, x, x, average, root, by_tree);
        broadcast(comm, x, root);
      });
    }
  };
  for (const int p : {1, 2, 4, 8}) {
    CHECK(on_ranks(p, calls) == "");
    CHECK(on_ranks<over_messages>(p, calls) == "");
    const auto said = on_processes(p, [&](auto& comm) {
                        complaints wrong;
                        calls(comm, wrong);
                        return wrong.text();
                      }).said;
    CHECK(said == all_say(p, ""));
  }
}

TEST_CASE("order::tree: a number of ranks that does not divide the leaves is refused") {
  for (const int p : {3, 16}) {
    const auto said = on_ranks(p, [](auto& comm, complaints&) {
      float x[] = {1};
      allreduce(comm, x, sum, ordered<order::tree<leaf_count>>(automatic{}));
    });
    CHECK(said.find("does not divide the leaves of the tree") != std::string::npos);
    const auto reduced = on_ranks(p, [](auto& comm, complaints&) {
      float x[] = {1};
      reduce(comm, x, x, sum, 0, ordered<order::tree<leaf_count>>(automatic{}));
    });
    CHECK(reduced.find("does not divide the leaves of the tree") != std::string::npos);
  }
}
