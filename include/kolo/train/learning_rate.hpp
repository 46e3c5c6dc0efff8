// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Learning rates as functions of the step: warm-up, polynomial and step decay, in float32 throughout.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI {

/// The linear scaling rule: the rate of one rank times `ranks`, at most `most`.
constexpr float by_size(float rate_of_one, int ranks, float most = 3.4e38f) {
  const float rate = rate_of_one * float(ranks);
  return rate < most ? rate : most;
}

/// From `from` at step 0 to `to` at step `steps` and later: (from - to) (1 - step/steps)^power + to.
struct polynomial_decay {
  float from = 0;
  float to = 0;
  int steps = 1;
  int power = 2;

  constexpr float operator()(int step) const {
    const float left = step < steps ? 1.0f - float(step) / float(steps) : 0.0f;
    float factor = 1.0f;
    for (int i = 0; i < power; ++i) factor *= left;
    return (from - to) * factor + to;
  }
};

/// `from`, multiplied by `factor` after every `every` steps.
struct step_decay {
  float from = 0;
  float factor = 0.1f;
  int every = 1;

  constexpr float operator()(int step) const {
    float rate = from;
    for (int i = step / every; i > 0; --i) rate *= factor;
    return rate;
  }
};

/// Linear from `from` to then(0) over `steps` steps; after them `then`, whose steps count from there. `Rate` is any
/// callable from a step to a float, of this file or a user's.
template <class Rate>
struct warm_up {
  float from = 0;
  int steps = 0;
  Rate then;

  constexpr float operator()(int step) const {
    if (step >= steps) return then(step - steps);
    return from + (then(0) - from) * (float(step) / float(steps));
  }
};

template <class Rate>
warm_up(float, int, Rate) -> warm_up<Rate>;

}  // namespace kolo::inline KOLO_ABI
