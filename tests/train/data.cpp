// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shards: the same number of items for each rank, no item twice, and the same global batches for any number of ranks.
#include <kolo/train/data.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

namespace {

/// The functions of a communicator that `shard` calls.
struct place {
  int rank_, size_;
  int rank() const { return rank_; }
  int size() const { return size_; }
};

std::vector<int> numbers(int n) {
  std::vector<int> result(static_cast<std::size_t>(n));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

/// Items that are computed on access, as batches are.
struct made_to_order {
  std::size_t size() const { return 10; }
  std::string operator[](std::size_t i) const { return std::to_string(i); }
};

}  // namespace

TEST_CASE("each rank gets floor(n/p) different items, and only the last n mod p items are left out") {
  for (int p = 1; p <= 17; ++p)
    for (int n : {0, 1, p - 1, p, p + 1, 97}) {
      const auto data = numbers(n);
      std::vector<int> seen;
      for (int r = 0; r < p; ++r) {
        const auto mine = kolo::shard(data, place{r, p});
        CHECK(mine.size() == static_cast<std::size_t>(n / p));
        CHECK(mine.empty() == (n < p));
        CHECK(std::distance(mine.begin(), mine.end()) == n / p);
        seen.insert(seen.end(), mine.begin(), mine.end());
      }
      std::sort(seen.begin(), seen.end());
      CHECK(seen == numbers(n / p * p));
    }
}

TEST_CASE("step k takes items kp to kp + p - 1") {
  const auto data = numbers(12);
  for (int p : {1, 2, 3, 4, 6})
    for (int r = 0; r < p; ++r) {
      const place here{r, p};
      int k = 0;
      for (int item : kolo::shard(data, here)) CHECK(item == p * k++ + r);
    }
}

TEST_CASE("an lvalue data set is not copied; a temporary one is kept") {
  std::vector<int> data = numbers(4);
  auto mine = kolo::shard(data, place{1, 2});
  data[3] = 42;
  CHECK(mine[1] == 42);

  std::vector<std::string> kept;
  for (const auto& item : kolo::shard(made_to_order{}, place{2, 3})) kept.push_back(item);
  CHECK(kept == std::vector<std::string>{"2", "5", "8"});
}

TEST_CASE("arrays and vectors of batches are data sets") {
  const std::array<std::vector<int>, 3> batches{{{1, 2}, {3, 4}, {5, 6}}};
  const place here{1, 2};
  int sum = 0;
  for (const auto& batch : kolo::shard(batches, here)) sum += batch[0] + batch[1];
  CHECK(sum == 7);
  const int plain[] = {7, 8, 9};
  CHECK(kolo::shard(plain, place{0, 2})[0] == 7);
}
