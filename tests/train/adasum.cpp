// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adaptive summation: equal gradients are averaged, orthogonal ones added, each tensor separately; each rank gets the bits of the tree.
#include <kolo/train/adasum.hpp>

#include <kolo/launch/threads.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/strided.hpp>

#include "support/catch.hpp"
#include "train/model.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>

using namespace testing;

namespace {

constexpr int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17};

using vector = std::vector<float>;

/// The definition, applied to whole vectors.
vector combined(const vector& a, const vector& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    ab += double(a[i]) * double(b[i]), aa += double(a[i]) * double(a[i]), bb += double(b[i]) * double(b[i]);
  vector sum;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum.push_back(static_cast<float>((aa == 0 ? 1 : 1 - ab / (2 * aa)) * double(a[i]) +
                                     (bb == 0 ? 1 : 1 - ab / (2 * bb)) * double(b[i])));
  return sum;
}

/// The tree over the ranks' vectors, in the documented order.
vector tree(std::vector<vector> of) {
  std::size_t m = 1;
  while (2 * m <= of.size()) m *= 2;
  for (std::size_t r = m; r < of.size(); ++r) of[r - m] = combined(of[r - m], of[r]);
  for (std::size_t apart = 1; apart < m; apart *= 2)
    for (std::size_t r = 0; r < m; r += 2 * apart) of[r] = combined(of[r], of[r + apart]);
  return of[0];
}

vector uneven(int rank, std::size_t tensor, std::size_t n) {
  vector x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(std::sin(float(rank * 31 + int(tensor) * 7 + int(i))));
  return x;
}

}  // namespace

TEST_CASE("adasum: each rank has the bits of the tree, tensor by tensor") {
  tally t;
  for (const int p : sizes)
    kolo::threads::run(p, [&](auto& comm) {
      model mine{{5, 0, 300, 1}};
      auto parameters = mine.parameters();
      kolo::adasum combine{comm};
      for (int step = 0; step < 2; ++step) {
        for (std::size_t i = 0; i < 4; ++i)
          std::ranges::copy(uneven(comm.rank() + step, i, mine.gradients[i].size()), mine.gradients[i].begin());
        combine(parameters);
        for (std::size_t i = 0; i < 4; ++i) {
          std::vector<vector> all;
          for (int r = 0; r < p; ++r) all.push_back(uneven(r + step, i, mine.gradients[i].size()));
          t.expect(mine.gradients[i] == tree(all));
        }
      }
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("adasum: equal gradients are averaged, orthogonal ones added, and a zero gradient changes nothing") {
  tally t;
  for (const int p : sizes)
    kolo::threads::run(p, [&](auto& comm) {
      const auto r = static_cast<std::size_t>(comm.rank()), n = static_cast<std::size_t>(p);
      vector equal{3, -4, 5}, apart(n), alone{0, 0};
      std::vector<kolo::bfloat16> halves(n);
      apart[r] = float(r + 1), halves[r] = kolo::bfloat16{2.0f};
      if (comm.rank() == p - 1) alone = {7, 8};
      vector values(3), places(n);
      struct parameter {
        std::span<float> value, gradient;
      };
      kolo::adasum combine{comm};
      combine(std::vector{parameter{values, equal}, parameter{places, apart}, parameter{alone, alone}});
      struct small {
        std::span<kolo::bfloat16> value, gradient;
      };
      combine(std::vector{small{halves, halves}});
      t.expect(equal == vector{3, -4, 5} && alone == vector{7, 8});
      for (std::size_t i = 0; i < n; ++i) t.expect(apart[i] == float(i + 1) && float(halves[i]) == 2.0f);
    });
  CHECK(t.wrong == 0);
}

TEST_CASE("adasum: views with gaps, local parameters, and a refused parameter with rows") {
  tally t;
  std::barrier all{3};
  kolo::threads::run(3, [&](auto& comm) {
    float wide[8] = {1, 9, 1, 9, 1, 9, 1, 9}, own[2] = {float(comm.rank()), 1};
    struct parameter {
      kolo::strided<float, 2> value, gradient;
      bool local = false;
      kolo::row_list* rows = nullptr;
    };
    const kolo::strided<float, 2> gaps{wide, {4, 1}, {2, 1}}, mine{own, {1, 2}, {2, 1}};
    kolo::adasum combine{comm};
    combine(std::vector{parameter{gaps, gaps}, parameter{mine, mine, true}});
    for (int i = 0; i < 8; ++i) t.expect(wide[i] == (i % 2 == 0 ? 1 : 9));
    t.expect(own[0] == float(comm.rank()));
    all.arrive_and_wait();  // a refusal fails the calls that other ranks have not left
    kolo::row_list rows;
    const auto words = words_of([&] {
      combine(std::vector{parameter{gaps, gaps}, parameter{gaps, gaps, false, &rows}});
    });
    t.expect(contains(words, "adasum") && contains(words, "parameter 1 has .rows"));
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("adasum: an argument error or an exception of one rank fails all ranks at once") {
  struct parameter {
    std::span<float> value, gradient;
    kolo::row_list* rows = nullptr;
  };
  struct list {
    std::vector<parameter> all;
    bool is_broken;
    auto begin() { return is_broken ? throw std::runtime_error{"the list is broken"} : all.begin(); }
    auto end() { return all.end(); }
  };
  for (const bool is_refused : {true, false}) {
    tally t;
    std::barrier all{6};
    kolo::threads::run(
        6,
        [&](auto& comm) {
          kolo::adasum combine{comm};
          all.arrive_and_wait();  // a refusal fails the calls that other ranks have not left
          kolo::row_list rows;
          std::vector<float> x(4, 1.0F);
          const bool is_culprit = comm.rank() == 1;
          list parameters{{{x, x, is_culprit && is_refused ? &rows : nullptr}}, is_culprit && !is_refused};
          std::string words;
          try {
            combine(parameters);
          } catch (const std::exception& e) {
            words = e.what();
          }
          t.expect(contains(words, is_refused   ? "has .rows"
                                   : is_culprit ? "the list is broken"
                                                : "an exception ended adasum: the list is broken"));
          all.arrive_and_wait();  // no rank learns it from the destruction of another's communicator
        },
        {.timeout = std::chrono::seconds{3}});
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("adasum: another number or other sizes of parameters on one rank is a mismatch on all, with the numbers") {
  for (const std::vector<std::size_t>& odd : {std::vector<std::size_t>{4, 3}, {3, 4, 5}, {3}}) {
    tally t;
    std::barrier all{5};
    kolo::threads::run(5,
                       [&](auto& comm) {
                         model mine{comm.rank() == 2 ? odd : std::vector<std::size_t>{3, 4}};
                         auto parameters = mine.parameters();
                         kolo::adasum combine{comm};
                         const auto words = words_of([&] { combine(parameters); });
                         const auto its = odd.size() == 2   ? "rank 2 has 2 with 7 elements"
                                          : odd.size() == 3 ? "rank 2 has 3 with 12 elements"
                                                            : "rank 2 has 1 with 3 elements";
                         t.expect(contains(words, "rank 0 has 2 with 7 elements in all, and ") && contains(words, its));
                         all.arrive_and_wait();  // no rank learns it from the destruction of another's communicator
                       },
                       {.timeout = std::chrono::seconds{3}});
    CHECK(t.wrong == 0);
  }
}
