// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generated digits and the mini-batches: seeded, and the same global batches for every number of ranks.
#include "generator.hpp"

#include <kolo/train/data.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <vector>

namespace {

struct place {
  int rank_, size_;
  int rank() const { return rank_; }
  int size() const { return size_; }
};

/// The labels and the sums of the images of the k-th step, over all ranks, in rank order.
std::vector<float> global_batch(const digits::dataset& data, int size, std::size_t of_step, std::size_t k) {
  const digits::batches shuffled{data, of_step / std::size_t(size), 7};
  std::vector<float> result;
  for (int r = 0; r < size; ++r) {
    const digits::batch mine = kolo::shard(shuffled, place{r, size})[k];
    for (std::size_t i = 0; i < mine.labels.size(); ++i) {
      result.push_back(float(mine.labels[i]));
      result.push_back(mine.images.col(Eigen::Index(i)).sum());
    }
  }
  return result;
}

}  // namespace

TEST_CASE("digits: an image depends only on the seed and its index") {
  const auto some = digits::generate(50, 3), more = digits::generate(80, 3), others = digits::generate(50, 4);
  CHECK(some.labels != others.labels);
  CHECK(std::equal(some.labels.begin(), some.labels.end(), more.labels.begin()));
  CHECK(std::equal(some.images.begin(), some.images.end(), more.images.begin()));
}

TEST_CASE("digits: every class occurs, and every image has enough dark pixels") {
  const auto data = digits::generate(2000, 1);
  std::vector<int> count(digits::classes);
  for (std::size_t i = 0; i < data.size(); ++i) {
    ++count.at(data.labels[i]);
    const auto* image = data.images.data() + i * digits::pixels;
    CHECK(std::count_if(image, image + digits::pixels, [](int grey) { return grey > 100; }) > 10);
  }
  CHECK(*std::min_element(count.begin(), count.end()) > 140);
}

TEST_CASE("digits: no test image is a training image") {
  const auto data = digits::generate_split(300, 50, 1);
  for (std::size_t i = 0; i < data.test.size(); ++i) {
    const auto* image = data.test.images.data() + i * digits::pixels;
    for (std::size_t k = 0; k < data.train.size(); ++k)
      CHECK(!std::equal(image, image + digits::pixels, data.train.images.data() + k * digits::pixels));
  }
}

TEST_CASE("digits: a global batch has the same images for every number of ranks") {
  const auto data = digits::generate(130, 1);
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
    const auto alone = global_batch(data, 1, 24, k);
    CHECK(alone.size() == 48);
    for (const int p : {2, 3, 4, 8}) CHECK(global_batch(data, p, 24, k) == alone);
  }
  CHECK(global_batch(data, 1, 24, 0) != global_batch(data, 1, 24, 1));
}

TEST_CASE("digits: an epoch uses no image twice, and another seed gives another order") {
  const auto data = digits::generate(50, 1);
  const auto sums = [&](std::uint64_t seed) {
    std::vector<float> result;
    const digits::batches shuffled{data, 7, seed};
    CHECK(shuffled.size() == 7);
    for (std::size_t k = 0; k < shuffled.size(); ++k) {
      const auto columns = shuffled[k].images.colwise().sum().eval();
      result.insert(result.end(), columns.data(), columns.data() + columns.size());
    }
    return result;
  };
  auto first = sums(1);
  CHECK(first != sums(2));
  std::sort(first.begin(), first.end());
  CHECK(std::adjacent_find(first.begin(), first.end()) == first.end());
}
