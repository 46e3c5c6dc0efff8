// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images of digits with their labels, and mini-batches of them.
#pragma once

#include "random.hpp"

// Bytes up to which temporaries of a matrix product are on the stack, instead of allocated in each step.
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 20)
#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace digits {

inline constexpr int side = 28;
inline constexpr int pixels = side * side;
inline constexpr int classes = 10;

/// n images of 28 x 28 grey values, contiguous, and the digit that each shows.
struct dataset {
  std::vector<std::uint8_t> images;  // (n, 784)
  std::vector<std::uint8_t> labels;  // (n)
  std::size_t size() const { return labels.size(); }
};

/// A training set and a test set.
struct split {
  dataset train, test;
};

/// Consecutive images of a data set.
struct slice {
  std::span<const std::uint8_t> images, labels;  // (n, 784), (n)
  std::size_t size() const { return labels.size(); }
};

/// A copy of the slice, as a data set.
inline dataset copy_of(const slice& some) {
  return {{some.images.begin(), some.images.end()}, {some.labels.begin(), some.labels.end()}};
}

/// The data set in its order, in slices of `count` images; the last may have fewer.
class slices {
 public:
  slices(const dataset& data, std::size_t count) : data_{&data}, count_{count} {}

  std::size_t size() const { return (data_->size() + count_ - 1) / count_; }
  slice operator[](std::size_t index) const {
    const std::size_t first = index * count_, n = std::min(count_, data_->size() - first);
    return {std::span{data_->images}.subspan(first * pixels, n * pixels), std::span{data_->labels}.subspan(first, n)};
  }

 private:
  const dataset* data_;
  std::size_t count_;
};

/// Images as a matrix with one column per image, values from 0 to 1.
struct batch {
  Eigen::MatrixXf images;   // (784, b)
  std::vector<int> labels;  // (b)
};

/// The data set in mini-batches of `count` images, in an order that depends on `seed` alone. A step of p ranks uses p
/// consecutive mini-batches: the same images for every p, as long as p times `count` is the same. operator[] returns a
/// reference to one buffer, which the next call overwrites.
class batches {
 public:
  batches(const dataset& data, std::size_t count, std::uint64_t seed)
      : data_{&data},
        count_{count},
        order_(data.size()),
        current_{Eigen::MatrixXf(pixels, count), std::vector<int>(count)} {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    random_numbers random{seed};
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
  }

  std::size_t size() const { return order_.size() / count_; }

  const batch& operator[](std::size_t index) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t sample = order_[index * count_ + i];
      const Eigen::Map<const Eigen::Array<std::uint8_t, pixels, 1>> image{data_->images.data() + sample * pixels};
      current_.images.col(Eigen::Index(i)) = image.cast<float>() / 255.0f;
      current_.labels[i] = data_->labels[sample];
    }
    return current_;
  }

 private:
  const dataset* data_;
  std::size_t count_;
  std::vector<std::size_t> order_;
  mutable batch current_;
};

}  // namespace digits
