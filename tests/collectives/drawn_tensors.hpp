// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of one type with a random layout: contiguous, strided or a bucket.
#pragma once

#include <kolo/view/bucket.hpp>
#include <kolo/view/strided.hpp>

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "soak/dice.hpp"

namespace testing {

using soak::dice;

/// A view of any of three layouts: contiguous, strided, or runs of any lengths.
template <class T>
class any_view {
 public:
  using element_type = T;
  template <class V>
  explicit any_view(const V& v) : of_{v} {}
  std::size_t size() const {
    return std::visit([](const auto& v) { return static_cast<std::size_t>(v.size()); }, of_);
  }
  std::span<T> run(std::size_t i) const {
    return std::visit(
        [i](const auto& v) -> std::span<T> {
          if constexpr (kolo::ContiguousView<std::remove_cvref_t<decltype(v)>>) return v.subspan(i);
          else return v.run(i);
        },
        of_);
  }

 private:
  std::variant<std::span<T>, kolo::strided<T, 1>, kolo::bucket<T>> of_;
};

/// n elements, and guard elements around and between them that must not change.
template <class T>
class tensor {
 public:
  tensor(dice d, std::size_t n) {
    const int how = d.below(3);
    const auto step = how == 1 ? 2 + d.below(std::size_t{2}) : 1;
    std::vector<std::size_t> gaps(n, step);
    for (auto& gap : gaps)
      if (how == 2 && d.one_in(12)) gap += 1 + d.below(std::size_t{3});
    at_.push_back(1 + d.below(std::size_t{4}));
    for (const auto gap : gaps) at_.push_back(at_.back() + gap);
    memory_.assign(at_.back() + 3, mark());
    if (how == 0) view_ = any_view<T>{std::span<T>{memory_.data() + at_[0], n}};
    else if (how == 1) view_ = any_view<T>{kolo::strided<T, 1>{memory_.data() + at_[0], {n}, {step}}};
    else view_ = any_view<T>{in_runs(n)};
  }
  T& operator[](std::size_t i) { return memory_[at_[i]]; }
  std::size_t size() const { return at_.size() - 1; }
  any_view<T> view() const { return *view_; }
  bool is_tidy() {
    std::size_t next = 0;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (next < size() && i == at_[next]) ++next;
      else if (memory_[i] != mark()) return false;
    }
    return true;
  }
  static T mark() { return T(-77); }

 private:
  kolo::bucket<T> in_runs(std::size_t n) {
    std::vector<std::span<T>> runs;
    for (std::size_t first = 0, i = 1; i <= n; ++i)
      if (i == n || at_[i] != at_[i - 1] + 1) runs.push_back({&(*this)[first], i - first}), first = i;
    return kolo::bucket<T>{std::span{std::as_const(runs)}};
  }

  std::vector<T> memory_{};
  std::vector<std::size_t> at_{};  ///< the index of each element in memory_, and that after the last
  std::optional<any_view<T>> view_{};
};

}  // namespace testing
