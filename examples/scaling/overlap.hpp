// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When gradients are ready, and when their exchange is over: the backward pass and the allreduces beside it.
#pragma once

#include "resnet50.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace scaling {

/// Gradients that are exchanged together.
struct bucket {
  std::size_t elements = 0;
  double ready = 0;  ///< which part of the backward pass is over when its last gradient is known: 0 ... 1
};

/// Gradients in the order in which they become known, from the last layer to the first, in buckets of at most so many elements; a larger
/// tensor is one by itself. A gradient is known when its layer's work is done, and that of the layers behind it.
inline std::vector<bucket> buckets_of(const std::vector<tensor>& forward, std::size_t most_elements) {
  double all = 0, done = 0;
  for (const tensor& t : forward) all += t.work;
  std::vector<bucket> result;
  for (auto t = forward.rbegin(); t != forward.rend(); ++t) {
    done += t->work;
    if (result.empty() || result.back().elements + t->elements > most_elements) result.push_back({});
    result.back().elements += t->elements;
    result.back().ready = all > 0 ? done / all : 1;
  }
  return result;
}

/// What does not depend on the network.
struct step_of_training {
  double forward = 0, backward = 0;  ///< seconds
  double overlap =
      1;  ///< 1: an exchange starts when its bucket is ready; 0: when the backward pass is over; else in between
};

/// Seconds of one step. A bucket's exchange takes exchange(bucket) seconds; it starts when the bucket is ready and the one before it is done, and
/// does not slow the backward pass. The optimizer's update is part of neither.
template <class Exchange>
double step_seconds(const step_of_training& s, const std::vector<bucket>& buckets, Exchange exchange) {
  double end = 0;
  for (const bucket& b : buckets) {
    const double starts = 1 - s.overlap * (1 - b.ready);
    end = std::max(end, starts * s.backward) + exchange(b);
  }
  return s.forward + std::max(end, s.backward);
}

}  // namespace scaling
