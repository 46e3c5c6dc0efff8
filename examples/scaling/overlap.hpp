// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When gradients are ready, and when their exchange ends: the backward pass and concurrent allreduces.
#pragma once

#include "resnet50.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace scaling {

/// Gradients that are exchanged together.
struct bucket {
  std::size_t elements = 0;
  double ready = 0;  ///< fraction of the backward pass that is done when its last gradient is computed: 0 ... 1
};

/// Buckets of at most `most_elements`, in the order in which gradients are computed, from the last layer to the first; a larger tensor is a bucket
/// of its own. A gradient is computed when the work of its layer and of all later layers is done.
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

/// The parameters that do not depend on the network.
struct step_of_training {
  double forward = 0, backward = 0;  ///< seconds
  double overlap = 1;  ///< 1: an exchange starts when its bucket is ready; 0: after the backward pass; else in between
};

/// Seconds of one step. A bucket's exchange takes exchange(bucket) seconds; it starts when the bucket is ready and the previous exchange is done, and
/// does not slow down the backward pass. The optimizer's update is not included.
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
