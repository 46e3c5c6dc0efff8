// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records the order in which groups of parameters are used, and predicts from it which groups to gather ahead.
#pragma once

#include <kolo/config.hpp>

#include <array>
#include <cstddef>
#include <map>

namespace kolo::inline KOLO_ABI::detail::train {

/// A use is encoded as 1 + 2 * group, plus 1 with gradients; 0 is the end of a step.
class order_of_uses {
 public:
  static constexpr std::size_t end_of_step = 0;
  static constexpr std::size_t use_of(std::size_t group, bool with_gradients) {
    return 1 + 2 * group + (with_gradients ? 1 : 0);
  }

  void came(std::size_t use) {
    followed_[last_] = use;
    last_ = {last_[1], use};
  }
  /// Calls f(group) for at most n predicted next uses, up to the end of this step, which changes the values.
  void each_soon(std::size_t groups, int n, auto f) const {
    std::size_t use = 0;
    for (auto two = last_; n > 0 && (use = after(two, groups)) > 0; --n, two = {two[1], use}) f((use - 1) / 2);
  }

 private:
  /// Returns the use that followed these two the last time; else guesses the group after, or with gradients the one
  /// before.
  std::size_t after(const std::array<std::size_t, 2>& two, std::size_t groups) const {
    if (const auto known = followed_.find(two); known != followed_.end()) return known->second;
    const std::size_t now = two[1];
    if (now > 0 && now % 2 == 0) return now - 2;
    const std::size_t next = now > 0 ? now + 2 : 1;
    return next < 2 * groups ? next : 0;
  }

  std::array<std::size_t, 2> last_{};
  std::map<std::array<std::size_t, 2>, std::size_t> followed_{};  ///< by the two uses before each
};

}  // namespace kolo::inline KOLO_ABI::detail::train
