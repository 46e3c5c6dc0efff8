// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Learning rates as functions of the step: warm-up, polynomial and step decay, in float32 throughout.
#pragma once

#include <kolo/core/error.hpp>

namespace kolo::inline KOLO_ABI {

namespace detail::train {

constexpr void demand(bool condition, const char* sentence) {
  if (!condition) throw error{errc::invalid_argument, sentence};
}

}  // namespace detail::train

/// The linear scaling rule: the rate of one rank times `ranks`, at most `most`.
constexpr float by_size(float rate_of_one, int ranks, float most = 3.4e38f) {
  const float rate = rate_of_one * float(ranks);
  return rate > most ? most : rate;  // a rate that is not a number stays one that is seen
}

/// From `from` at step 0 to `to` at step `steps` and later: (from - to) (1 - step/steps)^power + to. Errors:
/// `invalid_argument` for steps < 0, or power < 1.
struct polynomial_decay {
  float from = 0;
  float to = 0;
  int steps = 1;
  int power = 2;

  constexpr float operator()(int step) const {
    detail::train::demand(steps >= 0 && power >= 1, "polynomial_decay takes steps >= 0 and power >= 1");
    const float left = step < steps ? 1.0f - float(step) / float(steps) : 0.0f;
    float factor = 1.0f;
    for (int i = 0; i < power; ++i) factor *= left;
    return (from - to) * factor + to;
  }
};

/// `from`, multiplied by `factor` after every `every` steps. Errors: `invalid_argument` for every < 1.
struct step_decay {
  float from = 0;
  float factor = 0.1f;
  int every = 1;

  constexpr float operator()(int step) const {
    detail::train::demand(every >= 1, "step_decay takes every >= 1");
    float rate = from;
    for (int i = step / every; i > 0; --i) rate *= factor;
    return rate;
  }
};

/// Linear from `from` to then(0) over `steps` steps; after them `then`, whose steps count from there. `Rate` is any
/// callable from a step to a float, of this file or a user's. Errors: `invalid_argument` for steps < 0.
template <class Rate>
struct warm_up {
  float from = 0;
  int steps = 0;
  Rate then;

  constexpr float operator()(int step) const {
    detail::train::demand(steps >= 0, "warm_up takes steps >= 0");
    if (step >= steps) return then(step - steps);
    return from + (then(0) - from) * (float(step) / float(steps));
  }
};

template <class Rate>
warm_up(float, int, Rate) -> warm_up<Rate>;

}  // namespace kolo::inline KOLO_ABI
