// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements that an outer optimizer exchanges together: the pseudo-gradient, the outer update, the merge.
#pragma once

#include <kolo/reduce/arithmetic.hpp>
#include <kolo/train/update.hpp>
#include <kolo/view/bucket.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// Elements that are exchanged together: views of them, their outer values, the pseudo-gradient, and the rule's state.
template <class T>
struct outer_part {
  using N = typename reduce::divisor<T>::type;

  outer_part(const bucket<T>& of, std::size_t state_count)
      : values{of}, outer(of.size()), difference(of.size()), states(state_count * of.size()) {
    T* to = outer.data();
    view::for_runs(values, [&](auto run) { to = std::copy(run.begin(), run.end(), to); });
  }

  /// Sets difference = (outer - value) * factor, the pseudo-gradient.
  void subtract(double factor) {
    std::size_t i = 0;
    view::for_runs(values, [&](auto run) {
      for (const T& x : run)
        difference[i] = static_cast<T>((static_cast<N>(outer[i]) - static_cast<N>(x)) * static_cast<N>(factor)), ++i;
    });
  }
  /// Updates the outer values with the mean difference as the gradient.
  template <class Rule>
  void update(const Rule& rule, long round) {
    train::apply(rule, std::span<T>{outer}, std::span<T>{difference}, states, round, {0, outer.size()});
  }
  /// Sets value = blend * value + (1 - blend) * outer.
  void merge(double blend) {
    const N own = static_cast<N>(blend), rest = static_cast<N>(1 - blend);
    const T* from = outer.data();
    view::for_runs(values, [&](auto run) {
      if (blend != 0)
        for (std::size_t i = 0; i < run.size(); ++i)
          run[i] = static_cast<T>(own * static_cast<N>(run[i]) + rest * static_cast<N>(from[i]));
      else std::copy_n(from, run.size(), run.begin());
      from += run.size();
    });
  }

  bucket<T> values;
  std::vector<T> outer, difference, states;
};

}  // namespace kolo::inline KOLO_ABI::detail::train
