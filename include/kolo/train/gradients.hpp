// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an optimizer does with whole gradients between a backward pass and an update: scale, round, clip, look for
// zeros.
#pragma once

#include <kolo/reduce/arithmetic.hpp>
#include <kolo/reduce/traits.hpp>
#include <kolo/train/parameter.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

/// x *= factor, in float where elements have 16 bits.
template <View V>
void scale(const V& view, double factor) {
  using T = typename V::element_type;
  using N = typename reduce::divisor<T>::type;
  for_runs(view, [&](std::span<T> run) {
    for (T& x : run) x = static_cast<T>(x * static_cast<N>(factor));
  });
}

template <View V>
bool is_all_zero(const V& view) {
  for (std::size_t i = 0; i < view.size();) {
    const auto run = [&] {
      if constexpr (ContiguousView<V>) return view.subspan(i);
      else return view.run(i);
    }();
    for (const auto& x : run)
      if (!(x == typename V::element_type{})) return false;
    i += run.size();
  }
  return true;
}

/// Rounds every element to the wire's type, and keeps what that takes away, to be added next time.
template <class Wire, View V, class T>
void round_with_feedback(const V& view, std::vector<T>& kept) {
  kept.resize(view.size());
  T* rest = kept.data();
  for_runs(view, [&](std::span<T> run) {
    for (T& x : run) {
      const T wanted = static_cast<T>(x + *rest), sent = static_cast<T>(static_cast<Wire>(wanted));
      *rest++ = static_cast<T>(wanted - sent);
      x = sent;
    }
  });
}

template <View V>
double sum_of_squares(const V& view) {
  double sum = 0;
  for_runs(view, [&](auto run) {
    for (const auto& x : run) sum += static_cast<double>(x) * static_cast<double>(x);
  });
  return sum;
}

/// What all gradients are multiplied by, so that their norm is at most `limit`. A norm that is no number stays visible.
inline double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1.0; }

}  // namespace detail::train

/// Scales all gradients so that the root of the sum of all their squares is at most `limit`; returns what it was.
/// Between `synchronize` and `step` every rank has the same gradients, so every rank finds the same norm. Local
/// parameters, which may differ, do not count and stay.
template <AnyParameters Range>
double clip_by_global_norm(Range&& parameters, double limit) {
  double squares = 0;
  detail::train::each_parameter(parameters, [&](std::size_t, auto& p) {
    if (!detail::train::is_local(p)) squares += detail::train::sum_of_squares(kolo::as_view(p.gradient));
  });
  const double norm = std::sqrt(squares), factor = detail::train::clip_factor(norm, limit);
  detail::train::each_parameter(parameters, [&](std::size_t, auto& p) {
    if (factor != 1 && !detail::train::is_local(p)) detail::train::scale(kolo::as_view(p.gradient), factor);
  });
  return norm;
}

}  // namespace kolo::inline KOLO_ABI
