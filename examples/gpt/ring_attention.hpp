// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sequence parallelism: each rank has a part of every sequence; keys and values circulate in a ring.
#pragma once

#include "layers.hpp"
#include "text.hpp"

#include <kolo/point_to_point.hpp>

#include <Eigen/Core>

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace gpt {

/// This rank's tokens of each sequence of a batch.
inline batch part_of(const batch& b, std::size_t places, part mine) {
  const std::size_t length = places / std::size_t(mine.of), first = length * std::size_t(mine.index);
  batch own;
  for (std::size_t at = first; at < b.tokens.size(); at += places) {
    own.tokens.insert(own.tokens.end(), &b.tokens[at], &b.tokens[at] + length);
    own.targets.insert(own.targets.end(), &b.targets[at], &b.targets[at] + length);
  }
  return own;
}

/// Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers", arXiv 2310.01889. Rank r has the r-th part of
/// each sequence, and attends to it and to the parts of lower ranks. (So the last rank has most work; Brandon et al.,
/// "Striped attention", arXiv 2311.09431, distribute tokens cyclically.)
template <class T, class Ranks>
class ring_attention final : public attention<T> {
  using attention<T>::part, attention<T>::scale, attention<T>::each;
  using rows = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic>;

 public:
  using attention<T>::heads, attention<T>::length, attention<T>::qkv;

  explicit ring_attention(Ranks& ranks) : ranks_{ranks} {}

  /// Keeps the largest score so far and the sum of weights; when a larger score comes, scales down what has been summed
  /// (Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867).
  matrix<T> forward(matrix<T> in) override {
    qkv = std::move(in);
    out_ = matrix<T>::Zero(this->width(), qkv.cols());
    rows largest = rows::Constant(heads, qkv.cols(), std::numeric_limits<T>::lowest()),
         sum = rows::Zero(heads, qkv.cols());
    go_round([&](const matrix<T>& kv, int from) {
      each([&](Eigen::Index h, Eigen::Index t) {
        if (from > ranks_.comm.rank()) return;
        matrix<T> p = scores(kv, from, h, t);
        auto most = largest.block(h, t, 1, length), all = sum.block(h, t, 1, length);
        const rows before = most;
        most = before.max(p.colwise().maxCoeff().array());
        p = (p.array().rowwise() - most.row(0)).exp().matrix().eval();
        const rows shrunk = (before - most).exp();
        all = all * shrunk + p.colwise().sum().array();
        auto out = part(out_, 0, h, t);
        out.array().rowwise() *= shrunk.row(0);
        out.noalias() += part(kv, 1, h, t) * p;
      });
    });
    each([&](Eigen::Index h, Eigen::Index t) {
      part(out_, 0, h, t).array().rowwise() /= sum.block(h, t, 1, length).row(0);
    });
    log_sum_ = largest + sum.log();
    return out_;
  }

  /// The gradient of each block of keys and values follows the block, with one more shift, which returns it to its rank.
  matrix<T> backward(const matrix<T>& dy) override {
    matrix<T> dq = matrix<T>::Zero(this->width(), qkv.cols()), dkv = matrix<T>::Zero(2 * this->width(), qkv.cols()),
              next = dkv;
    go_round([&](const matrix<T>& kv, int from) {
      each([&](Eigen::Index h, Eigen::Index t) {
        if (from > ranks_.comm.rank()) return;
        matrix<T> p = scores(kv, from, h, t);
        p = (p.array().rowwise() - log_sum_.block(h, t, 1, length).row(0)).exp().matrix().eval();
        const matrix<T> out = part(dy, 0, h, t);
        part(dkv, 1, h, t).noalias() += out * p.transpose();
        matrix<T> s = part(kv, 1, h, t).transpose() * out;
        const auto mean = out.cwiseProduct(part(out_, 0, h, t)).colwise().sum().eval();
        s = ((s.rowwise() - mean).cwiseProduct(p) * scale()).eval();
        part(dq, 0, h, t).noalias() += part(kv, 0, h, t) * s;
        part(dkv, 0, h, t).noalias() += part(qkv, 0, h, t) * s.transpose();
      });
      kolo::shift(ranks_.call(), elements(dkv), elements(next), 1);
      dkv.swap(next);
    });
    matrix<T> d(qkv.rows(), qkv.cols());
    d << dq, dkv;
    return d;
  }

 private:
  static std::span<T> elements(matrix<T>& m) { return {m.data(), std::size_t(m.size())}; }

  /// (length, length): column q, the scores of query q of this rank with the keys of a block of rank `from`.
  matrix<T> scores(const matrix<T>& kv, int from, Eigen::Index h, Eigen::Index t) const {
    matrix<T> s = part(kv, 0, h, t).transpose() * part(qkv, 0, h, t) * scale();
    if (from == ranks_.comm.rank())
      for (Eigen::Index q = 0; q < length; ++q)
        s.col(q).tail(length - q - 1).setConstant(-std::numeric_limits<T>::infinity());
    return s;
  }
  /// Calls f(keys and values, their rank) for this rank's and all others'; the next block is received during f.
  template <class F>
  void go_round(F f) {
    const int rank = ranks_.comm.rank(), size = ranks_.comm.size();
    matrix<T> kv = qkv.bottomRows(2 * this->width()), next(kv.rows(), kv.cols());
    for (int i = 0; i < size; ++i) {
      auto coming = i + 1 < size ? std::optional{kolo::start_shift(ranks_.call(), elements(kv), elements(next), 1)}
                                 : std::nullopt;
      f(std::as_const(kv), (rank - i + size) % size);
      if (coming) coming->wait();
      kv.swap(next);
    }
  }

  Ranks& ranks_;
  matrix<T> out_{};  // (width, n)
  rows log_sum_{};   // (heads, n): logarithm of the sum of each query's unnormalised weights
};

}  // namespace gpt
