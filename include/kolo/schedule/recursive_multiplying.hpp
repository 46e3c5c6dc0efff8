// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive multiplying: each round multiplies the number of ranks whose data a rank has, by up to `radix`.
#pragma once

#include <kolo/schedule/recursive_doubling.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); one block.
/// After   the collective's postcondition.
/// Cost    allreduce: p = f_0 f_1 ... with factors <= radix: for each factor f a round of f - 1 messages of n bytes, so
///         a power of the radix takes log_radix p rounds. Other p: as `recursive_doubling`.
/// Order   the order of the ranks: a round combines neighbouring runs of ranks.
/// Errors  supports no number of ranks if the radix is below 2.
/// Source  recursive doubling, which is the case of radix 2; MPICH's "recursive multiplying".
struct recursive_multiplying {
  int radix = 4;
  struct butterfly;
  struct allreduce;
};

/// The allreduce for products of factors <= radix. Ranks are numbers in mixed radix; a round is an exchange among the
/// ranks that differ in one digit only.
struct recursive_multiplying::butterfly {
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = true;
  recursive_multiplying shape{};

  constexpr bool supports(int p) const { return shape.radix >= 2 && rest_of(p) == 1; }
  static constexpr int blocks(int) { return 1; }
  constexpr int rounds(int p) const {
    int k = 0;
    for (; p > 1; p /= factor(p)) ++k;
    return k;
  }
  constexpr step at(int r, int p, int k) const {
    int weight = 1, left = p;
    for (; k > 0; --k) weight *= factor(left), left = p / weight;
    const int f = factor(left), digit = r / weight % f;
    const peer_range others{r + (mod(digit + 1, f) - digit) * weight, f - 1, weight, f};
    return transfer{.to = others, .send = {0, 1}, .from = others, .receive = {0, 1}, .then = arrival::in_rank_order};
  }

 private:
  /// The largest factor of p that is <= radix; p if there is none.
  constexpr int factor(int p) const {
    for (int f = shape.radix < p ? shape.radix : p; f > 1; --f)
      if (p % f == 0) return f;
    return p;
  }
  /// p divided by all its factors <= radix.
  constexpr int rest_of(int p) const {
    while (p > 1 && factor(p) <= shape.radix) p /= factor(p);
    return p;
  }
};

/// By the digits of the rank if p is a product of factors <= radix; otherwise by recursive doubling.
struct recursive_multiplying::allreduce {
  static constexpr auto collective = kind::allreduce;
  static constexpr bool ordered = true;
  recursive_multiplying shape{};

  constexpr bool supports(int) const { return shape.radix >= 2; }
  static constexpr int blocks(int) { return 1; }
  constexpr int rounds(int p) const { return is_product(p) ? by_factors().rounds(p) : by_two{}.rounds(p); }
  constexpr int reduce_rounds(int p) const { return is_product(p) ? rounds(p) : by_two{}.reduce_rounds(p); }
  constexpr step at(int r, int p, int k) const {
    return is_product(p) ? by_factors().at(r, p, k) : by_two{}.at(r, p, k);
  }

 private:
  using by_two = recursive_doubling::allreduce;
  constexpr butterfly by_factors() const { return {shape}; }
  constexpr bool is_product(int p) const { return by_factors().supports(p); }
};

}  // namespace kolo::inline KOLO_ABI
