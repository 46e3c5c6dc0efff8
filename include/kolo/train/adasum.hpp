// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adaptive summation (Adasum): averages parallel gradients and adds orthogonal ones, tensor by tensor.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/core/error.hpp>
#include <kolo/core/rank.hpp>
#include <kolo/reduce/arithmetic.hpp>
#include <kolo/train/buckets.hpp>
#include <kolo/train/parameter.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// `kolo::adasum combine{comm};` once, and `combine(parameters);` after each backward pass, instead of an average; then
/// an optimizer's own step. Two gradients a and b of a tensor become (1 - a.b / 2a.a) a + (1 - a.b / 2b.b) b, so the
/// learning rate of one rank suits any number of ranks.
///
/// Before  every rank has the gradients of the same parameters. Local parameters are left unchanged.
/// After   every rank has the combination of all ranks' gradients, the same bits on every rank and in every run.
/// Cost    for each tensor of n bytes ceil(lg p) rounds of n bytes, and one more if p is not a power of two; 2n bytes
///         of memory for the largest tensor, kept between calls. Construction splits the communicator floor(lg p) + 1
///         times.
/// Order   rank r first combines with rank r + m, where m is the largest power of two up to p; then pairs of ranks,
///         then pairs of pairs. Products are summed in double, where doubles above 1e154
///         overflow to NaN and vectors below 1e-154 lose digits: scale such gradients first.
/// Errors  invalid_argument: a gradient with `.rows`. mismatch, in the first call: number, order or sizes of the
///         parameters differ. Those of the collectives.
/// Source  Maleki et al., "Scaling distributed training with adaptive summation", MLSys 2021, arXiv 2006.02924.
template <class C>
class adasum {
 public:
  /// Collective.
  explicit adasum(C& comm)
      : comm_{comm},
        doubling_{floor_power_of_two(comm.size())},
        folded_{comm.split(comm.rank() % doubling_, comm.rank())} {
    for (int bit = 1; bit < doubling_; bit *= 2)
      pairs_.push_back(comm.split(comm.rank() < doubling_ ? comm.rank() & ~bit : comm.rank(), comm.rank()));
  }

  template <AnyParameters Range>
  void operator()(Range&& parameters) try {
    detail::train::each_parameter(parameters, [&](std::size_t i, auto& p) {
      if (detail::train::rows_of(p))
        detail::execute::refuse(*comm_.engine(), "adasum",
                                (detail::train::name_of(p, i) + " has .rows: whole gradients only").c_str());
    });
    if (!is_compared_) compare(parameters);
    detail::train::each_parameter(parameters, [&](std::size_t, auto& p) {
      if (!detail::train::is_local(p)) combine(kolo::as_view(p.gradient));
    });
  } catch (const error& e) {
    pass_on(e.cause().text);
    throw;
  } catch (...) {
    pass_on(detail::core::ended_by_exception("adasum"));
    throw;
  }

 private:
  using part = decltype(std::declval<C&>().split(0, 0));

  /// Fails the communicators of all parts: other ranks may wait for this one in any of them.
  void pass_on(std::string_view text) {
    detail::execute::pass_on(*folded_.engine(), text);
    for (part& pair : pairs_) detail::execute::pass_on(*pair.engine(), text);
    if (!is_compared_) detail::execute::pass_on(*comm_.engine(), text);
  }

  /// Collective. Ranks with other numbers of parameters would wait for calls that do not come.
  void compare(auto& parameters) {
    constexpr std::size_t numbers = 3;
    std::uint64_t count = 0, elements = 0;
    detail::core::digest sizes;
    detail::train::each_parameter(parameters, [&](std::size_t, auto& p) {
      if (detail::train::is_local(p)) return;
      const std::size_t n = kolo::as_view(p.gradient).size();
      ++count, elements += n, sizes.add(n);
    });
    const std::uint64_t mine[numbers] = {count, elements, sizes.value};
    std::vector<std::uint64_t> all(numbers * std::size_t(comm_.size()));
    kolo::allgather(comm_, std::span{mine}, std::span{all});
    is_compared_ = true;
    for (std::size_t r = 1; r < all.size() / numbers; ++r) {
      const auto* const its = &all[numbers * r];
      if (std::equal(its, its + numbers, all.data())) continue;
      throw error{errc::mismatch, "adasum: number, order or sizes of the parameters differ: rank 0 has " +
                                      in_words(all.data()) + ", and rank " + std::to_string(r) + " has " +
                                      in_words(its)};
    }
  }
  static std::string in_words(const std::uint64_t* numbers) {
    return std::to_string(numbers[0]) + " with " + std::to_string(numbers[1]) + " elements in all";
  }

  template <View V>
  void combine(const V& gradient) {
    combine_pair(folded_, gradient);
    if (comm_.rank() < doubling_)
      for (part& pair : pairs_) combine_pair(pair, gradient);
    if (folded_.size() == 2) kolo::broadcast(folded_, gradient, 0);
  }

  template <View V>
  void combine_pair(part& pair, const V& gradient) {
    using T = typename V::element_type;
    using N = typename detail::reduce::divisor<T>::type;  // converts to T with one rounding
    if (pair.size() == 1) return;
    const std::size_t n = gradient.size();
    const std::span<T> both = scratch_for<T>(2 * n);
    kolo::allgather(pair, gradient, both);
    const std::span<const T> all = both, a = all.first(n), b = all.last(n);
    const double ab = dot(a, b), of_a = weight(ab, dot(a, a)), of_b = weight(ab, dot(b, b));
    std::size_t i = 0;
    detail::view::for_runs(gradient, [&](std::span<T> run) {
      for (T& x : run) {
        x = static_cast<T>(static_cast<N>(of_a * double(a[i]) + of_b * double(b[i])));
        ++i;
      }
    });
  }

  template <class T>
  std::span<T> scratch_for(std::size_t n) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (scratch_.size() < n * sizeof(T)) scratch_.resize(n * sizeof(T));
    return {reinterpret_cast<T*>(scratch_.data()), n};
  }

  template <class T>
  static double dot(std::span<const T> a, std::span<const T> b) {
    double total = 0;
    for (std::size_t i = 0; i < a.size(); ++i) total += double(a[i]) * double(b[i]);
    return total;
  }
  /// The factor of a vector with this square. A zero vector is orthogonal to every other.
  static double weight(double ab, double square) { return square == 0 ? 1 : 1 - ab / (2 * square); }

  C& comm_;
  bool is_compared_ = false;  ///< the ranks' parameters, in the first call
  int doubling_;              ///< ranks of recursive doubling; every other rank is first folded onto one of them
  part folded_;               ///< this rank with its partner in the fold, or alone
  std::vector<part> pairs_;   ///< at distance 1, 2, 4, ...
  std::vector<std::byte>
      scratch_{};  ///< two vectors; kept, because new memory costs a page fault per page in each step
};

}  // namespace kolo::inline KOLO_ABI
