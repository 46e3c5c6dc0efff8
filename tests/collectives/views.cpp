// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives on any kind of view: arrays, spans, columns, buckets of many tensors, and mixtures.
#include <kolo/view/bucket.hpp>
#include <kolo/view/strided.hpp>

#include <array>

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

constexpr std::size_t rows = 61;
int sum_at(int p, std::size_t i) {
  int x = 0;
  for (int r = 0; r < p; ++r) x += int_of(r, i);
  return x;
}

template <class F>
std::string on_some_ranks(F f) {
  std::string all;
  for (const int p : {1, 2, 3, 5, 8})
    for (const auto slot : {usual_slot, small_slot}) all += on_ranks(p, f, slot) + on_ranks<over_messages>(p, f, slot);
  return all;
}

/// A table with one column as the tensor; the other cells must not change.
struct table {
  std::vector<int> cells = std::vector<int>(rows * 4, -7);
  template <class T = int>
  kolo::strided<T, 1> column(std::size_t c) {
    return {cells.data() + c, {rows}, {4}};
  }
  void fill(std::size_t c, int rank) {
    for (std::size_t i = 0; i < rows; ++i) cells[4 * i + c] = int_of(rank, i);
  }
};

void expect_columns(complaints& wrong, const char* call, int rank, const table& t, std::size_t changed, int p) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t c = 0; c < 4; ++c) {
      const int wanted = c == changed ? sum_at(p, i) : c == 0 ? int_of(rank, i) : -7;
      if (t.cells[4 * i + c] != wanted) return wrong.say(std::string{call} + ": a wrong cell");
    }
}

}  // namespace

TEST_CASE("views: arrays, C arrays and spans") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          std::array<int, rows> a;
          int c[rows];
          std::vector<int> v(rows);
          for (std::size_t i = 0; i < rows; ++i) a[i] = c[i] = v[i] = int_of(r, i);
          kolo::allreduce(comm, a, kolo::sum);
          kolo::allreduce(comm, c, kolo::sum);
          kolo::allreduce(comm, std::span{v}.subspan(1), kolo::sum);
          for (std::size_t i = 0; i < rows; ++i) {
            wrong.expect(a[i] == sum_at(p, i) && c[i] == sum_at(p, i), "an array");
            wrong.expect(v[i] == (i == 0 ? int_of(r, i) : sum_at(p, i)), "a span");
          }
        }) == "");
}

TEST_CASE("views: columns of a table, in place and from one to another") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          table t;
          t.fill(0, r);
          kolo::allreduce(comm, t.template column<const int>(0), t.column(2), kolo::sum, kolo::ring{});
          expect_columns(wrong, "ring, column to column", r, t, 2, p);
          table u;
          u.fill(0, r);
          kolo::allreduce(comm, u.column(0), kolo::sum, kolo::recursive_doubling{});
          expect_columns(wrong, "recursive_doubling in a column", r, u, 0, p);
          table o;
          o.fill(0, r);
          kolo::allreduce(comm, o.column(0), kolo::sum, kolo::one_shot{});
          expect_columns(wrong, "one_shot in a column", r, o, 0, p);
        }) == "");
}

TEST_CASE("views: from a column to a vector and back, and two columns as a two-dimensional tensor") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          table t;
          t.fill(0, r);
          std::vector<int> out(rows);
          kolo::allreduce(comm, t.column(0), out, kolo::sum, kolo::two_shot{});
          for (std::size_t i = 0; i < rows; ++i) wrong.expect(out[i] == sum_at(p, i), "column to vector");
          kolo::reduce(comm, filled<int>(rows, [&](std::size_t i) { return int_of(r, i); }), t.column(3), kolo::sum, 0);
          if (r == 0) expect_columns(wrong, "vector to column", r, t, 3, p);

          table two;
          two.fill(0, r), two.fill(1, r);
          kolo::broadcast(comm, kolo::strided<int, 2>{two.cells.data(), {rows, 2}, {4, 1}}, p - 1);
          for (std::size_t i = 0; i < rows; ++i)
            wrong.expect(two.cells[4 * i] == int_of(p - 1, i) && two.cells[4 * i + 1] == int_of(p - 1, i) &&
                             two.cells[4 * i + 2] == -7,
                         "two columns");
        }) == "");
}

TEST_CASE("views: a bucket of many tensors, some of them empty, is one vector") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          std::vector<int> w1(37), nothing, b1(1), w2(90), b2(5);
          kolo::bucket all{w1, nothing, b1, w2, b2};
          const auto put = [&] {
            std::size_t i = 0;
            for (auto* t : {&w1, &nothing, &b1, &w2, &b2})
              for (int& x : *t) x = int_of(r, i++);
          };
          const auto expect = [&](const char* call) {
            std::size_t i = 0;
            for (auto* t : {&w1, &nothing, &b1, &w2, &b2})
              for (const int x : *t) wrong.expect(x == sum_at(p, i++), call);
          };
          put();
          kolo::allreduce(comm, all, kolo::sum);
          expect("a bucket, automatic");
          put();
          kolo::allreduce(comm, all, kolo::sum, kolo::ring{});
          expect("a bucket, ring");

          put();
          std::vector<int> gathered(all.size() * static_cast<std::size_t>(p));
          kolo::allgather(comm, all, gathered);
          for (std::size_t i = 0; i < gathered.size(); ++i)
            wrong.expect(gathered[i] == int_of(static_cast<int>(i / all.size()), i % all.size()),
                         "allgather from a bucket");
          kolo::scatter(comm, gathered, all, p - 1, kolo::binomial{});
          std::size_t i = 0;
          for (const int x : w1) wrong.expect(x == int_of(r, i++), "scatter to a bucket");
        }) == "");
}

TEST_CASE("views: from a bucket of columns, built at run time, to a vector") {
  CHECK(on_some_ranks([](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          table t;
          for (std::size_t c = 0; c < 4; ++c) t.fill(c, r);
          std::vector<kolo::strided<int, 1>> columns{t.column(3), t.column(1)};
          kolo::bucket some{std::span{columns}};
          const auto mine = kolo::block(2 * rows, p, r);
          std::vector<int> out(mine.count);
          kolo::reduce_scatter(comm, some, out, kolo::sum, kolo::circulant{});
          for (std::size_t i = 0; i < mine.count; ++i)
            wrong.expect(out[i] == sum_at(p, (mine.first + i) % rows), "reduce_scatter");
          std::vector<int> before(2 * rows, 5);
          kolo::exclusive_scan(comm, some, before, kolo::sum);
          for (std::size_t i = 0; i < 2 * rows; ++i)
            wrong.expect(before[i] == (r == 0 ? 5 : sum_at(r, i % rows)), "exclusive_scan");
        }) == "");
}
