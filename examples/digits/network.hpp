// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small classifier: dense layers with rectifiers between them, softmax and cross-entropy at the end.
#pragma once

#include "dataset.hpp"

#include <kolo/shm/heap.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace digits {

/// One tensor of the model and its gradient, with the names that kolo/train expects.
struct parameter {
  std::span<float> value, gradient;
};

/// Means over the images of a batch.
struct score {
  double loss = 0, accuracy = 0;
};

class network {
 public:
  /// Allocates gradients: in memory that other ranks can read, or in ordinary memory.
  using memory = kolo::shm::allocator<float>;

  /// One dense layer between each two consecutive widths: {784, 10} is a linear classifier.
  network(const std::vector<int>& widths, std::uint64_t seed, const memory& for_gradients = {});

  /// Sets all gradients to those of the mean loss over the batch. Does not change parameters.
  score backward(const batch& b);

  /// The number of images that are classified correctly.
  std::size_t recognised(const slice& some);

  /// Half the sum of the squares of all parameters, the term of the loss that weight decay adds.
  double half_square() const;

  std::vector<parameter> parameters();

 private:
  /// Sets the outputs of all layers, and returns the last: the logits.
  const Eigen::MatrixXf& forward(const Eigen::MatrixXf& images);

  struct layer {
    Eigen::MatrixXf weight;                              // (out, in)
    Eigen::VectorXf bias;                                // (out)
    std::vector<float, memory> gradient, bias_gradient;  // (out, in), (out)
    Eigen::MatrixXf output, delta;                       // (out, b); delta: gradient by the input of the rectifier
  };

  std::vector<layer> layers_;
  Eigen::MatrixXf judged_;  // (784, b)
};

}  // namespace digits
