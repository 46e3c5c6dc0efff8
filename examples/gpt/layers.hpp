// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layers of a transformer, with hand-written forward and backward passes over Eigen. One column for each token.
#pragma once

#include <Eigen/Core>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace gpt {

template <class T>
using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using view = Eigen::Map<matrix<T>>;

/// Part `index` of `of` equal parts.
struct part {
  int index = 0, of = 1;
};

/// A parameter of a layer and its gradient, to which `backward` adds.
template <class T>
struct weight {
  view<T> value, gradient;
};

/// For ranks that have the whole matrix.
inline constexpr auto nothing_to_sum = [](auto&) {};

/// y = w x + b. If a rank has only some columns of w and the same rows of x, `sum` adds the products of all ranks before b is added.
template <class T, class Sum = decltype(nothing_to_sum)>
matrix<T> linear(const matrix<T>& x, const weight<T>& w, const weight<T>& b, const Sum& sum = nothing_to_sum) {
  matrix<T> y = w.value * x;  // (out, n)
  sum(y);
  y.colwise() += b.value.col(0);
  return y;
}
/// If a rank has only some rows of w and of dy, `sum` adds dx of all ranks.
template <class T, class Sum = decltype(nothing_to_sum)>
matrix<T> linear_backward(const matrix<T>& dy, const matrix<T>& x, weight<T> w, weight<T> b,
                          const Sum& sum = nothing_to_sum) {
  w.gradient.noalias() += dy * x.transpose();
  b.gradient += dy.rowwise().sum();
  matrix<T> dx = w.value.transpose() * dy;  // (in, n)
  sum(dx);
  return dx;
}

/// Each column with mean 0 and variance 1, then scaled and shifted.
template <class T>
struct layer_norm {
  matrix<T> x{};                                 // (width, n), normalised
  Eigen::Matrix<T, 1, Eigen::Dynamic> spread{};  // (1, n), 1 / standard deviation

  matrix<T> forward(const matrix<T>& in, const weight<T>& scale, const weight<T>& shift) {
    x = in.rowwise() - in.colwise().mean();
    spread = (x.array().square().colwise().mean() + T(1e-5)).rsqrt().matrix();
    x.array().rowwise() *= spread.array();
    matrix<T> y = scale.value.col(0).asDiagonal() * x;
    y.colwise() += shift.value.col(0);
    return y;
  }
  matrix<T> backward(const matrix<T>& dy, weight<T> scale, weight<T> shift) const {
    scale.gradient += dy.cwiseProduct(x).rowwise().sum();
    shift.gradient += dy.rowwise().sum();
    matrix<T> dx = scale.value.col(0).asDiagonal() * dy;
    const auto along = dx.cwiseProduct(x).colwise().mean().eval(), mean = dx.colwise().mean().eval();
    dx.array() -= x.array().rowwise() * along.array();
    dx.array().rowwise() -= mean.array();
    dx.array().rowwise() *= spread.array();
    return dx;
  }
};

/// Vaswani et al., "Attention is all you need", NeurIPS 2017; causal: each token attends to those of its sequence up to itself.
template <class T>
struct attention {
  Eigen::Index heads = 1, length = 1;  // length of a sequence
  matrix<T> qkv{};                     // (3 width, n): query, key, value

  virtual ~attention() = default;
  virtual matrix<T> forward(matrix<T> in) = 0;  // (width, n)
  virtual matrix<T> backward(const matrix<T>& dy) = 0;

 protected:
  Eigen::Index width() const { return qkv.rows() / 3; }
  T scale() const { return 1 / std::sqrt(T(width() / heads)); }
  /// Query, key or value (0, 1, 2) of head h, of the sequence that begins at token t.
  auto part(auto& m, Eigen::Index which, Eigen::Index h, Eigen::Index t) const {
    const Eigen::Index size = width() / heads;
    return m.block(which * width() + h * size, t, size, length);
  }
  template <class F>
  void each(F f) const {
    for (Eigen::Index t = 0; t < qkv.cols(); t += length)
      for (Eigen::Index h = 0; h < heads; ++h) f(h, t);
  }
};

/// Attention on a rank that has all of every sequence.
template <class T>
struct whole_attention final : attention<T> {
  using attention<T>::qkv, attention<T>::length, attention<T>::part, attention<T>::scale, attention<T>::each;
  std::vector<matrix<T>> weights{};  // (length, length) for each sequence and head; column t: the weights of query t

  matrix<T> forward(matrix<T> in) override {
    qkv = std::move(in);
    weights.clear();
    matrix<T> y(this->width(), qkv.cols());
    each([&](Eigen::Index h, Eigen::Index t) {
      matrix<T> p = part(qkv, 1, h, t).transpose() * part(qkv, 0, h, t) * scale();
      for (Eigen::Index q = 0; q < length; ++q) {
        auto visible = p.col(q).head(q + 1);
        visible = (visible.array() - visible.maxCoeff()).exp().matrix().eval();
        visible /= visible.sum();
        p.col(q).tail(length - q - 1).setZero();
      }
      part(y, 0, h, t).noalias() = part(qkv, 2, h, t) * p;
      weights.push_back(std::move(p));
    });
    return y;
  }
  matrix<T> backward(const matrix<T>& dy) override {
    matrix<T> d(qkv.rows(), qkv.cols());
    std::size_t number = 0;
    each([&](Eigen::Index h, Eigen::Index t) {
      const matrix<T>& p = weights[number++];
      const matrix<T> out = part(dy, 0, h, t);
      part(d, 2, h, t).noalias() = out * p.transpose();
      matrix<T> s = part(qkv, 2, h, t).transpose() * out;
      const auto mean = s.cwiseProduct(p).colwise().sum().eval();
      s = ((s.rowwise() - mean).cwiseProduct(p) * scale()).eval();
      part(d, 0, h, t).noalias() = part(qkv, 1, h, t) * s;
      part(d, 1, h, t).noalias() = part(qkv, 0, h, t) * s.transpose();
    });
    return d;
  }
};

/// Hendrycks and Gimpel, "Gaussian error linear units", arXiv 1606.08415, with the tanh approximation.
template <class T>
auto gelu_tanh(const matrix<T>& x) {
  return (T(0.7978845608028654) * (x.array() + T(0.044715) * x.array().cube())).tanh().eval();
}
template <class T>
matrix<T> gelu(const matrix<T>& x) {
  return (T(0.5) * x.array() * (1 + gelu_tanh(x))).matrix();
}
template <class T>
matrix<T> gelu_backward(const matrix<T>& dy, const matrix<T>& x) {
  const auto t = gelu_tanh(x);
  const auto inner = T(0.7978845608028654) * (1 + T(3 * 0.044715) * x.array().square());
  return (dy.array() * T(0.5) * (1 + t + x.array() * (1 - t.square()) * inner)).matrix();
}

/// Replaces the logits by the gradient of the mean loss; returns the loss.
template <class T>
double cross_entropy(matrix<T>& logits, std::span<const int> targets) {
  const T n = T(logits.cols());
  double loss = 0;
  for (Eigen::Index i = 0; i < logits.cols(); ++i) {
    auto column = logits.col(i);
    const T largest = column.maxCoeff(), wanted = column[targets[std::size_t(i)]];
    column = (column.array() - largest).exp().matrix().eval();
    const T sum = column.sum();
    loss += double(std::log(sum) + largest - wanted) / double(n);
    column /= sum * n;
    column[targets[std::size_t(i)]] -= 1 / n;
  }
  return loss;
}

}  // namespace gpt
