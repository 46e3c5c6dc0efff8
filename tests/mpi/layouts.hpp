// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of views with another layout on each rank: contiguous, or rows with gaps.
#pragma once

#include <utility>

#include "mpi/world.hpp"

namespace testing {

/// Calls f(view) with the elements of `x` as they are, or in rows with gaps of `gap` elements; copies them back. Reports a gap that was written.
template <class F>
void laid_out(complaints& wrong, int gap, std::vector<int>& x, F f) {
  if (gap == 0) return f(x);
  const std::size_t width = 5, stride = width + static_cast<std::size_t>(gap), rows = x.size() / width;
  const auto place = [&](std::size_t i) { return i / width * stride + i % width; };
  std::vector<int> all(rows * stride, -7);
  for (std::size_t i = 0; i < x.size(); ++i) all[place(i)] = x[i];
  const auto number = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  kolo::strided<int, 2> view{all.data(), {number(rows), number(width)}, {number(stride), 1}};
  f(view);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::exchange(all[place(i)], -7);
  wrong.expect(all == std::vector<int>(all.size(), -7), "a gap was written to");
}

/// One rank's part of the test: its elements, its calls, and the expected results. `of` has an algorithm for each collective.
class layouts_of_a_rank {
 public:
  layouts_of_a_rank(complaints& wrong, kolo::mpi::communicator& comm)
      : wrong_{wrong}, comm_{comm}, r_{comm.rank()}, p_{comm.size()} {}

  template <class Algorithms>
  void reduce_all(const Algorithms& of) {
    const auto sum = [&](std::size_t i) { return sum_until(p_, i); };
    in_place(
        "allreduce", [&](auto& x) { kolo::allreduce(comm_, x, kolo::sum, of.allreduce); }, sum);
    apart(
        "allreduce", all_, all_, [&](auto& x, auto& y) { kolo::allreduce(comm_, x, y, kolo::sum, of.allreduce); }, sum);
    apart(
        "reduce", all_, all_, [&](auto& x, auto& y) { kolo::reduce(comm_, x, y, kolo::sum, root_, of.reduce); },
        [&](std::size_t i) { return r_ == root_ ? sum(i) : -1; });
    apart(
        "reduce_scatter", all_, n_,
        [&](auto& x, auto& y) { kolo::reduce_scatter(comm_, x, y, kolo::sum, of.reduce_scatter); },
        [&](std::size_t i) { return sum(first_ + i); });
    apart(
        "scan", n_, n_, [&](auto& x, auto& y) { kolo::scan(comm_, x, y, kolo::sum, of.scan); },
        [&](std::size_t i) { return sum_until(r_ + 1, i); });
    apart(
        "exclusive_scan", n_, n_, [&](auto& x, auto& y) { kolo::exclusive_scan(comm_, x, y, kolo::sum, of.scan); },
        [&](std::size_t i) { return r_ == 0 ? -1 : sum_until(r_, i); });
  }
  template <class Algorithms>
  void move_all(const Algorithms& of) {
    const auto gathered = [&](std::size_t i) { return number(of_rank(i), i % n_); };
    in_place(
        "broadcast", [&](auto& x) { kolo::broadcast(comm_, x, root_, of.broadcast); },
        [&](std::size_t i) { return number(root_, i); });
    apart(
        "allgather", n_, all_, [&](auto& x, auto& y) { kolo::allgather(comm_, x, y, of.allgather); }, gathered);
    apart(
        "gather", n_, all_, [&](auto& x, auto& y) { kolo::gather(comm_, x, y, root_, of.gather); },
        [&](std::size_t i) { return r_ == root_ ? gathered(i) : -1; });
    apart(
        "scatter", all_, n_, [&](auto& x, auto& y) { kolo::scatter(comm_, x, y, root_, of.scatter); },
        [&](std::size_t i) { return number(root_, first_ + i); });
    apart(
        "alltoall", all_, all_, [&](auto& x, auto& y) { kolo::alltoall(comm_, x, y, of.alltoall); },
        [&](std::size_t i) { return number(of_rank(i), first_ + i % n_); });
  }

 private:
  static int number(int rank, std::size_t i) { return static_cast<int>(i) * (rank + 1) + rank; }
  int of_rank(std::size_t i) const { return static_cast<int>(i / n_); }
  static int sum_until(int end, std::size_t i) {
    int sum = 0;
    for (int q = 0; q < end; ++q) sum += number(q, i);
    return sum;
  }
  std::vector<int> numbers(std::size_t count) const {
    std::vector<int> v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = number(r_, i);
    return v;
  }
  template <class F>
  void want(const char* what, const std::vector<int>& got, F f) {
    bool good = true;
    for (std::size_t i = 0; i < got.size(); ++i) good = good && got[i] == f(i);
    wrong_.expect(good, std::string{what} + " is wrong");
  }
  template <class Call, class F>
  void in_place(const char* what, Call call, F wanted) {
    for (int k = 0; k < 2; ++k) {
      auto x = numbers(all_);
      laid_out(wrong_, (r_ + k) % 2, x, call);
      want(what, x, wanted);
    }
  }
  template <class Call, class F>
  void apart(const char* what, std::size_t takes, std::size_t gives, Call call, F wanted) {
    auto in = numbers(takes);
    for (int k = 0; k < 4; ++k) {
      std::vector<int> out(gives, -1);
      laid_out(wrong_, (r_ + k) % 2, in,
               [&](auto& x) { laid_out(wrong_, (r_ + k) / 2 % 2 * 3, out, [&](auto& y) { call(x, y); }); });
      want(what, out, wanted);
    }
  }

  complaints& wrong_;
  kolo::mpi::communicator& comm_;
  int r_, p_, root_ = p_ - 1;
  std::size_t n_ = 30, all_ = n_ * static_cast<std::size_t>(p_), first_ = n_ * static_cast<std::size_t>(r_);
};

}  // namespace testing
