// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small GPT: embeddings, blocks of attention and MLP, and a head that predicts the next character.
#pragma once

#include "../digits/random.hpp"
#include "layers.hpp"

#include <kolo/launch/processes.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/train/sharded_tensor.hpp>

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

/// One tensor of the model and its gradient, with the names that kolo/train expects.
template <class T>
struct parameter {
  std::string name;
  std::span<T> value, gradient;
};

/// This rank's part of a model that is divided among ranks; by default all of it.
template <class T>
struct share {
  part matrices{};                                       // of each block: tensor_parallel.hpp
  part layers{};                                         // pipeline.hpp
  part places{};                                         // of each sequence: ring_attention.hpp
  std::function<void(matrix<T>&)> sum = nothing_to_sum;  // over the ranks that have the other parts of the matrices
  std::function<std::unique_ptr<attention<T>>()> attend = [] { return std::make_unique<whole_attention<T>>(); };
};

template <class T>
class model {
  /// The activations of a block that its backward pass needs.
  struct block {
    layer_norm<T> norm1{}, norm2{};
    std::unique_ptr<attention<T>> attend{};
    matrix<T> in1{}, attended{}, in2{}, up{}, active{};
  };

 public:
  /// One pass of some sequences: the current activations, and those that the backward pass needs.
  struct pass {
    matrix<T> x{};  // (width, n)
    std::vector<block> blocks{};
    matrix<T> normalised{};
    layer_norm<T> norm{};
  };

  /// Allocates values and gradients: in memory that other ranks can read, or in ordinary memory.
  using memory = kolo::shm::allocator<T>;

  model(const shape& s, std::uint64_t seed, const memory& shared = {}, share<T> mine = {})
      : shape_{s}, mine_{std::move(mine)}, random_{seed}, shared_{shared} {
    const int c = s.width, cc = c * c, of = mine_.matrices.of;
    add("words", c, s.words, 0.02);
    add("places", c, s.places, 0.02);
    const double deep = 0.02 / std::sqrt(2.0 * s.layers);
    for (int l = 0; l < s.layers; ++l) {  // a rank has rows of the first matrix of a pair, and columns of the second
      const std::string at = "block " + std::to_string(l) + " ";
      add(at + "scale 1", c, 1, 0, 1), add(at + "shift 1", c, 1, 0);
      add(at + "attention", 3 * c / of, c, 0.02, 0, c), add(at + "attention bias", 3 * c / of, 1, 0, 0, c);
      add(at + "projection", c, c / of, deep, 0, cc), add(at + "projection bias", c, 1, 0);
      add(at + "scale 2", c, 1, 0, 1), add(at + "shift 2", c, 1, 0);
      add(at + "up", 4 * c / of, c, 0.02, 0, c), add(at + "up bias", 4 * c / of, 1, 0, 0, c);
      add(at + "down", c, 4 * c / of, deep, 0, cc), add(at + "down bias", c, 1, 0);
    }
    add("scale", c, 1, 0, 1), add("shift", c, 1, 0);
    add("head", s.words, c, 0.02), add("head bias", s.words, 1, 0);
    const part stage = mine_.layers;
    first_layer_ = std::size_t(s.layers * stage.index / stage.of);
    last_layer_ = std::size_t(s.layers * (stage.index + 1) / stage.of);
    first_tensor_ = stage.index == 0 ? 0 : first_of(first_layer_);
    if (stage.index + 1 < stage.of) tensors_.erase(tensors_.begin() + long(first_of(last_layer_)), tensors_.end());
    tensors_.erase(tensors_.begin(), tensors_.begin() + long(first_tensor_));
  }
  model(const model&) = delete;
  model& operator=(const model&) = delete;

  /// Makes the model use `tensors` instead of its own values; they are gathered as long as the result of use(group,
  /// with_gradients) exists. Groups are the embeddings, each block, and the layers after the last block.
  using user = std::function<std::shared_ptr<void>(std::size_t group, bool with_gradients)>;
  void lend(std::span<kolo::sharded_tensor<T>> tensors, user use) {
    use_ = std::move(use);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].lent = &tensors[i];
      tensors_[i].value = std::vector<T, memory>(shared_), tensors_[i].gradient = std::vector<T, memory>(shared_);
    }
  }
  /// The index of the first tensor of each group, and the number of tensors.
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

  /// The stages of a forward pass, each on the ranks that have its layers; p.x is input and output.
  void embed(std::span<const int> tokens, pass& p) {
    const auto used = use(0);
    const auto n = Eigen::Index(tokens.size());
    p.x.resize(shape_.width, n);
    for (Eigen::Index i = 0; i < n; ++i)
      p.x.col(i) = at(0).value.col(tokens[std::size_t(i)]) + at(1).value.col(place_of(i, n));
  }
  void blocks(pass& p) {
    p.blocks.resize(last_layer_ - first_layer_);
    for (std::size_t l = first_layer_; l < last_layer_; ++l) {
      const auto used = use(1 + l);
      forward(p.blocks[l - first_layer_], first_of(l), p.x);
    }
  }
  /// (words, n)
  matrix<T> head(pass& p) {
    const auto used = use(1 + last_layer_);
    const std::size_t i = first_of(last_layer_);
    p.normalised = p.norm.forward(p.x, at(i), at(i + 1));
    return linear(p.normalised, at(i + 2), at(i + 3));
  }

  /// The stages of a backward pass: replaces d, the gradient by a stage's output, by that by its input, and adds to the
  /// gradients of parameters. Calls ready(i) when gradient i is complete, the last first.
  template <class Ready>
  void head_backward(pass& p, matrix<T>& d, Ready ready) {
    const auto used = use(1 + last_layer_, true);
    const std::size_t i = first_of(last_layer_);
    d = linear_backward(d, p.normalised, at(i + 2), at(i + 3));
    d = p.norm.backward(d, at(i), at(i + 1));
    all_ready(ready, i, i + 4);
  }
  template <class Ready>
  void blocks_backward(pass& p, matrix<T>& d, Ready ready) {
    for (std::size_t l = last_layer_; l-- > first_layer_;) {
      const auto used = use(1 + l, true);
      backward(p.blocks[l - first_layer_], first_of(l), d);
      all_ready(ready, first_of(l), first_of(l + 1));
    }
  }
  template <class Ready>
  void embed_backward(std::span<const int> tokens, const matrix<T>& d, Ready ready) {
    const auto used = use(0, true);
    for (Eigen::Index i = 0; i < d.cols(); ++i) {
      at(0).gradient.col(tokens[std::size_t(i)]) += d.col(i);
      at(1).gradient.col(place_of(i, d.cols())) += d.col(i);
    }
    all_ready(ready, 0, 2);
  }
  void zero_gradients() {
    for (tensor& t : tensors_) std::fill(t.gradient.begin(), t.gradient.end(), T{});
  }

  /// (words, n), for consecutive sequences of `places` tokens, or for a shorter one.
  matrix<T> logits(std::span<const int> tokens) {
    embed(tokens, pass_), blocks(pass_);
    return head(pass_);
  }

  double loss(std::span<const int> tokens, std::span<const int> targets) {
    matrix<T> guess = logits(tokens);
    return cross_entropy(guess, targets);
  }

  /// Sets all gradients to those of the mean loss, which it returns. Calls ready(i) when gradient i is complete, the last first.
  template <class Ready>
  double backward(std::span<const int> tokens, std::span<const int> targets, Ready ready) {
    zero_gradients();  // gradients of lent tensors are zero already
    matrix<T> d = logits(tokens);
    const double loss = cross_entropy(d, targets);
    head_backward(pass_, d, ready), blocks_backward(pass_, d, ready), embed_backward(tokens, d, ready);
    return loss;
  }

 private:
  struct tensor {
    std::string name;
    Eigen::Index rows, columns;
    std::vector<T, memory> value, gradient;
    kolo::sharded_tensor<T>* lent = nullptr;
  };
  /// rows, columns: of this rank's part. run > 0: the tensor is divided among ranks; each has its part of every `run`
  /// consecutive elements in column-major order. All ranks draw the whole tensor, so that initial values do not depend
  /// on the division.
  void add(std::string name, int rows, int columns, double deviation, double start = 0, int run = 0) {
    const part mine = run > 0 ? mine_.matrices : part{};
    const std::size_t n = std::size_t(rows) * std::size_t(columns), whole = n * std::size_t(mine.of);
    const std::size_t every = run > 0 ? std::size_t(run) : whole, piece = every / std::size_t(mine.of);
    tensors_.push_back({std::move(name), rows, columns, std::vector<T, memory>(n, T(start), shared_),
                        std::vector<T, memory>(n, T{}, shared_)});
    if (deviation <= 0) return;
    auto to = tensors_.back().value.begin();
    for (std::size_t i = 0; i < whole; ++i) {
      const T x = T(deviation * double(random_.normal()));
      if (i % every / piece == std::size_t(mine.index)) *to++ = x;
    }
  }
  weight<T> at(std::size_t i) {
    tensor& t = tensors_[i - first_tensor_];
    if (t.lent) return {{t.lent->value().data(), t.rows, t.columns}, {t.lent->gradient().data(), t.rows, t.columns}};
    return {{t.value.data(), t.rows, t.columns}, {t.gradient.data(), t.rows, t.columns}};
  }
  static std::size_t first_of(std::size_t layer) { return 2 + 12 * layer; }
  std::shared_ptr<void> use(std::size_t group, bool with_gradients = false) {
    return use_ ? use_(group, with_gradients) : nullptr;
  }

  /// The position in its sequence of token i of n tokens of this rank.
  Eigen::Index place_of(Eigen::Index i, Eigen::Index n) const {
    return mine_.places.index * length_of(n) + i % length_of(n);
  }
  Eigen::Index length_of(Eigen::Index n) const { return std::min<Eigen::Index>(n, shape_.places / mine_.places.of); }
  template <class Ready>
  void all_ready(Ready& ready, std::size_t first, std::size_t last) const {
    while (last-- > first) ready(last - first_tensor_);
  }

  void forward(block& b, std::size_t i, matrix<T>& x) {
    b.in1 = b.norm1.forward(x, at(i), at(i + 1));
    if (!b.attend) b.attend = mine_.attend();
    b.attend->heads = shape_.heads / mine_.matrices.of, b.attend->length = length_of(x.cols());
    b.attended = b.attend->forward(linear(b.in1, at(i + 2), at(i + 3)));
    x += linear(b.attended, at(i + 4), at(i + 5), mine_.sum);
    b.in2 = b.norm2.forward(x, at(i + 6), at(i + 7));
    b.up = linear(b.in2, at(i + 8), at(i + 9));
    b.active = gelu(b.up);
    x += linear(b.active, at(i + 10), at(i + 11), mine_.sum);
  }
  /// Replaces d, the gradient by the block's output, by that by its input.
  void backward(block& b, std::size_t i, matrix<T>& d) {
    matrix<T> e = gelu_backward(linear_backward(d, b.active, at(i + 10), at(i + 11)), b.up);
    d += b.norm2.backward(linear_backward(e, b.in2, at(i + 8), at(i + 9), mine_.sum), at(i + 6), at(i + 7));
    e = b.attend->backward(linear_backward(d, b.attended, at(i + 4), at(i + 5)));
    d += b.norm1.backward(linear_backward(e, b.in1, at(i + 2), at(i + 3), mine_.sum), at(i), at(i + 1));
  }

  shape shape_;
  share<T> mine_;
  digits::random_numbers random_;
  memory shared_;
  user use_{};
  std::vector<tensor> tensors_{};
  std::size_t first_tensor_ = 0, first_layer_ = 0, last_layer_ = 0;
  pass pass_{};
};

}  // namespace gpt
