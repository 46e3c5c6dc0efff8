// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small GPT: embeddings, blocks of attention and perceptron, and a head that guesses the next character.
#pragma once

#include "../digits/random.hpp"
#include "layers.hpp"

#include <kolo/launch/processes.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/train/sharded_parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

struct shape {
  int words = 96, places = 64, width = 64, heads = 4, layers = 2;
};

/// One tensor of the model and its gradient, as the training layer wants to see them.
template <class T>
struct parameter {
  std::string name;
  std::span<T> value, gradient;
};

template <class T>
class model {
 public:
  /// Where values and gradients lie: in memory that the other ranks can read, or in ordinary memory.
  using memory = kolo::shm::allocator<T>;

  model(const shape& s, std::uint64_t seed, const memory& shared = {}) : shape_{s}, random_{seed}, shared_{shared} {
    const int c = s.width;
    add("words", c, s.words, 0.02);
    add("places", c, s.places, 0.02);
    const double deep = 0.02 / std::sqrt(2.0 * s.layers);
    for (int l = 0; l < s.layers; ++l) {
      const std::string at = "block " + std::to_string(l) + " ";
      add(at + "scale 1", c, 1, 0, 1), add(at + "shift 1", c, 1, 0);
      add(at + "attention", 3 * c, c, 0.02), add(at + "attention bias", 3 * c, 1, 0);
      add(at + "projection", c, c, deep), add(at + "projection bias", c, 1, 0);
      add(at + "scale 2", c, 1, 0, 1), add(at + "shift 2", c, 1, 0);
      add(at + "up", 4 * c, c, 0.02), add(at + "up bias", 4 * c, 1, 0);
      add(at + "down", c, 4 * c, deep), add(at + "down bias", c, 1, 0);
    }
    add("scale", c, 1, 0, 1), add("shift", c, 1, 0);
    add("head", s.words, c, 0.02), add("head bias", s.words, 1, 0);
  }
  model(const model&) = delete;
  model& operator=(const model&) = delete;

  /// The same model without values of its own: `tensors` are whole while use(group, with gradients) lasts. Groups are the
  /// embeddings, each block, and what comes after the last one.
  using user = std::function<std::shared_ptr<void>(std::size_t group, bool with_gradients)>;
  void lend(std::span<kolo::sharded_tensor<T>> tensors, user use) {
    use_ = std::move(use);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].lent = &tensors[i];
      tensors_[i].value = std::vector<T, memory>(shared_), tensors_[i].gradient = std::vector<T, memory>(shared_);
    }
  }
  /// The first tensor of each group, and how many there are.
  std::vector<std::size_t> groups() const {
    std::vector<std::size_t> first{0};
    for (std::size_t l = 0; l <= std::size_t(shape_.layers); ++l) first.push_back(first_of(l));
    first.push_back(tensors_.size());
    return first;
  }

  const shape& dimensions() const { return shape_; }
  std::vector<parameter<T>> parameters() {
    std::vector<parameter<T>> all;
    for (tensor& t : tensors_) all.push_back({t.name, t.value, t.gradient});
    return all;
  }

  /// (words, n), for sequences of `places` tokens one after the other, or for one that is shorter.
  matrix<T> logits(std::span<const int> tokens) {
    const auto n = Eigen::Index(tokens.size());
    length_ = std::min<Eigen::Index>(n, shape_.places);
    x_.resize(shape_.width, n);
    {
      const auto used = use(0);
      for (Eigen::Index i = 0; i < n; ++i)
        x_.col(i) = at(0).value.col(tokens[std::size_t(i)]) + at(1).value.col(i % length_);
    }
    blocks_.resize(std::size_t(shape_.layers));
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      const auto used = use(1 + l);
      forward(blocks_[l], first_of(l));
    }
    const auto used = use(1 + blocks_.size());
    const std::size_t last = first_of(blocks_.size());
    normalised_ = norm_.forward(x_, at(last), at(last + 1));
    return linear(normalised_, at(last + 2), at(last + 3));
  }

  T loss(std::span<const int> tokens, std::span<const int> targets) {
    matrix<T> guess = logits(tokens);
    return cross_entropy(guess, targets);
  }

  /// Sets all gradients to those of the mean loss, which it returns, and changes no value. ready(i) as soon as gradient i is complete, the last first.
  template <class Ready>
  T backward(std::span<const int> tokens, std::span<const int> targets, Ready ready) {
    matrix<T> d = logits(tokens);
    const T loss = cross_entropy(d, targets);
    const std::size_t last = first_of(blocks_.size());
    {
      const auto used = use(1 + blocks_.size(), true);
      d = linear_backward(d, normalised_, at(last + 2), at(last + 3));
      ready(last + 3), ready(last + 2);
      d = norm_.backward(d, at(last), at(last + 1));
      ready(last + 1), ready(last);
    }
    for (std::size_t l = blocks_.size(); l-- > 0;) {
      const auto used = use(1 + l, true);
      backward(blocks_[l], first_of(l), d);
      for (std::size_t i = first_of(l + 1); i-- > first_of(l);) ready(i);
    }
    const auto used = use(0, true);
    at(0).gradient.setZero(), at(1).gradient.setZero();
    for (Eigen::Index i = 0; i < d.cols(); ++i) {
      at(0).gradient.col(tokens[std::size_t(i)]) += d.col(i);
      at(1).gradient.col(i % length_) += d.col(i);
    }
    ready(1), ready(0);
    return loss;
  }

 private:
  struct tensor {
    std::string name;
    Eigen::Index rows, columns;
    std::vector<T, memory> value, gradient;
    kolo::sharded_tensor<T>* lent = nullptr;
  };
  /// What a block's backward pass needs of its forward pass.
  struct block {
    layer_norm<T> norm1{}, norm2{};
    attention<T> attend{1, 1};
    matrix<T> in1{}, attended{}, in2{}, up{}, active{};
  };

  void add(std::string name, int rows, int columns, double deviation, double start = 0) {
    const std::size_t n = std::size_t(rows) * std::size_t(columns);
    tensors_.push_back({std::move(name), rows, columns, std::vector<T, memory>(n, T(start), shared_),
                        std::vector<T, memory>(n, T{}, shared_)});
    if (deviation > 0)
      for (T& x : tensors_.back().value) x = T(deviation * double(random_.normal()));
  }
  weight<T> at(std::size_t i) {
    tensor& t = tensors_[i];
    if (t.lent) return {{t.lent->value().data(), t.rows, t.columns}, {t.lent->gradient().data(), t.rows, t.columns}};
    return {{t.value.data(), t.rows, t.columns}, {t.gradient.data(), t.rows, t.columns}};
  }
  static std::size_t first_of(std::size_t layer) { return 2 + 12 * layer; }
  std::shared_ptr<void> use(std::size_t group, bool with_gradients = false) {
    return use_ ? use_(group, with_gradients) : nullptr;
  }

  void forward(block& b, std::size_t i) {
    b.in1 = b.norm1.forward(x_, at(i), at(i + 1));
    b.attend.heads = shape_.heads, b.attend.length = length_;
    b.attended = b.attend.forward(linear(b.in1, at(i + 2), at(i + 3)));
    x_ += linear(b.attended, at(i + 4), at(i + 5));
    b.in2 = b.norm2.forward(x_, at(i + 6), at(i + 7));
    b.up = linear(b.in2, at(i + 8), at(i + 9));
    b.active = gelu(b.up);
    x_ += linear(b.active, at(i + 10), at(i + 11));
  }
  /// d: the gradient of what leaves the block becomes that of what enters it.
  void backward(block& b, std::size_t i, matrix<T>& d) {
    matrix<T> e = gelu_backward(linear_backward(d, b.active, at(i + 10), at(i + 11)), b.up);
    d += b.norm2.backward(linear_backward(e, b.in2, at(i + 8), at(i + 9)), at(i + 6), at(i + 7));
    e = b.attend.backward(linear_backward(d, b.attended, at(i + 4), at(i + 5)));
    d += b.norm1.backward(linear_backward(e, b.in1, at(i + 2), at(i + 3)), at(i), at(i + 1));
  }

  shape shape_;
  digits::random_numbers random_;
  memory shared_;
  user use_{};
  std::vector<tensor> tensors_{};
  std::vector<block> blocks_{};
  Eigen::Index length_ = 1;
  matrix<T> x_{}, normalised_{};
  layer_norm<T> norm_{};
};

}  // namespace gpt
