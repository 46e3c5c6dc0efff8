// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A network with one hidden layer, as functions of one thread: a CUDA kernel or a loop on the host calls them.
#pragma once

#include <kolo/config.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace gpu {

inline constexpr std::size_t inputs = 2, hidden = 32;
/// All parameters in one tensor, so the gradient is one tensor, too: weights (hidden, inputs), biases (hidden), weights (hidden), a bias.
inline constexpr std::size_t first_bias = hidden * inputs, second = first_bias + hidden, last_bias = second + hidden,
                             parameters = last_bias + 1;

/// Addresses of the tensors.
struct tensors {
  const float* points;  // (samples, inputs)
  const float* labels;  // (samples): 0 or 1
  float* weights;       // (parameters)
  float* gradient;      // (parameters)
  float* activations;   // (samples, hidden)
  float* errors;        // (samples): output minus label
  std::size_t samples;
};

// Each is called for i = 0 ... items - 1, in any order.

struct hidden_layer {
  tensors t;
  KOLO_HOST_DEVICE std::size_t items() const { return t.samples * hidden; }
  KOLO_HOST_DEVICE void operator()(std::size_t i) const {
    const float* const x = t.points + i / hidden * inputs;
    const std::size_t k = i % hidden;
    t.activations[i] =
        tanhf(t.weights[k * inputs] * x[0] + t.weights[k * inputs + 1] * x[1] + t.weights[first_bias + k]);
  }
};

struct output_layer {
  tensors t;
  KOLO_HOST_DEVICE std::size_t items() const { return t.samples; }
  KOLO_HOST_DEVICE void operator()(std::size_t i) const {
    float sum = t.weights[last_bias];
    for (std::size_t k = 0; k < hidden; ++k) sum += t.weights[second + k] * t.activations[i * hidden + k];
    t.errors[i] = 1.0f / (1.0f + expf(-sum)) - t.labels[i];
  }
};

/// Gradient of the mean cross entropy over this rank's samples. One thread per parameter, so the order of additions is fixed.
struct gradients {
  tensors t;
  KOLO_HOST_DEVICE std::size_t items() const { return parameters; }
  KOLO_HOST_DEVICE void operator()(std::size_t j) const {
    float sum = 0;
    for (std::size_t i = 0; i < t.samples; ++i) sum += t.errors[i] * slope(j, i);
    t.gradient[j] = sum / static_cast<float>(t.samples);
  }

 private:
  KOLO_HOST_DEVICE float slope(std::size_t j, std::size_t i) const {
    if (j == last_bias) return 1;
    if (j >= second) return t.activations[i * hidden + j - second];
    const std::size_t k = j < first_bias ? j / inputs : j - first_bias;
    const float a = t.activations[i * hidden + k];
    return t.weights[second + k] * (1 - a * a) * (j < first_bias ? t.points[i * inputs + j % inputs] : 1.0f);
  }
};

struct descent {
  tensors t;
  float rate;
  KOLO_HOST_DEVICE std::size_t items() const { return parameters; }
  KOLO_HOST_DEVICE void operator()(std::size_t j) const { t.weights[j] -= rate * t.gradient[j]; }
};

/// Points in a square, labelled by whether they are in a circle; rank r of p has every p-th point.
struct dataset {
  std::vector<float> points, labels;

  dataset(std::size_t all, int rank, int size) {
    for (auto i = static_cast<std::size_t>(rank); i < all; i += static_cast<std::size_t>(size)) {
      const float x = place(i, 0.7548777f), y = place(i, 0.5698403f), far = std::sqrt(x * x + y * y);
      points.insert(points.end(), {x, y});
      labels.push_back(far < 0.75f ? 1.0f : 0.0f);
    }
  }
  std::size_t size() const { return labels.size(); }

 private:
  /// A low-discrepancy sequence in -1 ... 1: the fractional parts of multiples of `step`.
  static float place(std::size_t i, float step) {
    const double x = static_cast<double>(i) * static_cast<double>(step);
    return static_cast<float>(2 * (x - std::floor(x)) - 1);
  }
};

inline std::vector<float> first_weights() {
  std::vector<float> w(parameters);
  for (std::size_t j = 0; j < parameters; ++j) w[j] = 2 * std::sin(static_cast<float>(3 * j + 1));
  return w;
}

}  // namespace gpu
