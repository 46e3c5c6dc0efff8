// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small classifier: forward, backward and evaluation, written with Eigen.
#include "network.hpp"

#include <algorithm>
#include <cmath>

namespace digits {
namespace {

using matrix = Eigen::Map<Eigen::MatrixXf>;

/// Replaces the logits by the gradient of the mean loss; returns the loss and the accuracy.
score softmax_cross_entropy(Eigen::MatrixXf& logits, const std::vector<int>& labels) {
  score sum;
  const auto count = static_cast<float>(labels.size());
  for (Eigen::Index i = 0; i < logits.cols(); ++i) {
    auto column = logits.col(i);
    const int label = labels[std::size_t(i)];
    Eigen::Index guess;
    const float largest = column.maxCoeff(&guess);
    column = (column.array() - largest).exp();
    column /= column.sum();
    sum.loss -= std::log(std::max(column[label], 1e-30f));
    sum.accuracy += guess == label;
    column[label] -= 1;
    column /= count;
  }
  return {sum.loss / count, sum.accuracy / count};
}

}  // namespace

network::network(const std::vector<int>& widths, std::uint64_t seed, const memory& for_gradients) {
  random_numbers random{seed};
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const int in = widths[i], out = widths[i + 1];
    const float scale = std::sqrt(2.0f / float(in));
    layers_.push_back({.weight = Eigen::MatrixXf::NullaryExpr(out, in, [&] { return scale * random.normal(); }),
                       .bias = Eigen::VectorXf::Zero(out),
                       .gradient{std::size_t(in) * std::size_t(out), 0.0f, for_gradients},
                       .bias_gradient{std::size_t(out), 0.0f, for_gradients},
                       .output = {},
                       .delta = {}});
  }
}

const Eigen::MatrixXf& network::forward(const Eigen::MatrixXf& images) {
  const Eigen::MatrixXf* input = &images;
  for (layer& l : layers_) {
    l.output.noalias() = l.weight * *input;
    l.output.colwise() += l.bias;
    if (&l != &layers_.back()) l.output = l.output.cwiseMax(0.0f);
    input = &l.output;
  }
  return *input;
}

score network::backward(const batch& b) {
  layers_.back().delta = forward(b.images);
  const score result = softmax_cross_entropy(layers_.back().delta, b.labels);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layer& l = layers_[i];
    const Eigen::MatrixXf& below = i > 0 ? layers_[i - 1].output : b.images;
    matrix{l.gradient.data(), l.weight.rows(), l.weight.cols()}.noalias() = l.delta * below.transpose();
    matrix{l.bias_gradient.data(), l.bias.size(), 1}.noalias() = l.delta.rowwise().sum();
    if (i == 0) break;
    Eigen::MatrixXf& next = layers_[i - 1].delta;
    next.noalias() = l.weight.transpose() * l.delta;
    next.array() *= (below.array() > 0).cast<float>();
  }
  return result;
}

std::size_t network::recognised(const slice& some) {
  using bytes = Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic>;
  const auto count = Eigen::Index(some.size());
  judged_ = Eigen::Map<const bytes>{some.images.data(), pixels, count}.cast<float>() / 255.0f;
  const Eigen::MatrixXf& logits = forward(judged_);
  std::size_t right = 0;
  for (Eigen::Index i = 0; i < count; ++i) {
    Eigen::Index guess;
    logits.col(i).maxCoeff(&guess);
    right += guess == some.labels[std::size_t(i)];
  }
  return right;
}

double network::half_square() const {
  double sum = 0;
  for (const layer& l : layers_) sum += l.weight.squaredNorm() + l.bias.squaredNorm();
  return sum / 2;
}

std::vector<parameter> network::parameters() {
  const auto view = [](auto& tensor) { return std::span<float>{tensor.data(), std::size_t(tensor.size())}; };
  std::vector<parameter> result;
  for (layer& l : layers_) {
    result.push_back({view(l.weight), l.gradient});
    result.push_back({view(l.bias), l.bias_gradient});
  }
  return result;
}

}  // namespace digits
