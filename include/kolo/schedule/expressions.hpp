// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbolic expressions: what a proof knows about the operands of a value, and their order.
#pragma once

#include <kolo/core/rank.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// A growable array that works in constant evaluation.
template <class T>
class row {
 public:
  constexpr explicit row(std::ptrdiff_t n = 0, T value = {}) : data_{new T[std::size_t(n)]}, size_{n}, room_{n} {
    for (std::ptrdiff_t i = 0; i < n; ++i) data_[i] = value;
  }
  row(const row&) = delete;
  row& operator=(const row&) = delete;
  constexpr ~row() { delete[] data_; }

  constexpr T& operator[](std::ptrdiff_t i) { return data_[i]; }
  constexpr const T& operator[](std::ptrdiff_t i) const { return data_[i]; }
  constexpr std::ptrdiff_t size() const { return size_; }
  constexpr void clear() { size_ = 0; }
  constexpr void push_back(const T& value) {
    if (size_ == room_) grow();
    data_[size_++] = value;
  }

 private:
  constexpr void grow() {
    room_ = 2 * room_ + 16;
    T* const larger = new T[std::size_t(room_)];
    for (std::ptrdiff_t i = 0; i < size_; ++i) larger[i] = data_[i];
    delete[] data_;
    data_ = larger;
  }

  T* data_;
  std::ptrdiff_t size_;
  std::ptrdiff_t room_;
};

/// The expressions of a proof. Expression number r < p is the contribution of rank r; every combination adds one. An
/// expression has its operands, the set of its contributions, the lowest and highest of their ranks, and a hash of its
/// tree in which the two operands of a combination are interchangeable.
///
/// The intermediate results of one pass (the arrivals of one transfer) are not stored, so 16-bit elements are not
/// rounded there. The hash `passes` covers the tree, its division into passes, and whether an operator finishes in the
/// last pass.
class expressions {
 public:
  constexpr explicit expressions(int p) : words_{(p + 63) / 64} {
    for (int r = 0; r < p; ++r) {
      for (int w = 0; w < words_; ++w) bits_.push_back(r / 64 == w ? std::uint64_t{1} << r % 64 : 0);
      const std::uint64_t leaf = core::stir(std::uint64_t(r) + 1);
      trees_.push_back({leaf, leaf, r, r, -1, -1});
    }
  }

  /// Begins a pass. `finishes`: the operator finishes in it.
  constexpr void begin_pass(bool finishes) {
    pass_ = int(trees_.size());
    finishes_ = finishes;
  }

  constexpr bool overlap(int a, int b) const {
    for (int w = 0; w < words_; ++w)
      if ((word(a, w) & word(b, w)) != 0) return true;
    return false;
  }
  constexpr bool in_order(int left, int right) const { return trees_[left].last < trees_[right].first; }
  constexpr int combine(int a, int b) {
    const tree x = trees_[a], y = trees_[b];
    for (int w = 0; w < words_; ++w) bits_.push_back(word(a, w) | word(b, w));
    const std::uint64_t left = a < pass_ ? core::stir(x.passes + 1) : x.passes, right = core::stir(y.passes + 1);
    trees_.push_back({both(x.hash, y.hash), both(left, right) + (finishes_ ? 1 : 0),
                      x.first < y.first ? x.first : y.first, x.last > y.last ? x.last : y.last, a < pass_ ? a : ~a, b});
    return int(trees_.size()) - 1;
  }
  /// Whether it holds the contributions of ranks 0 ... n - 1.
  constexpr bool holds_first(int a, int n) const {
    for (int w = 0; w < words_; ++w)
      if ((first_ranks(n, w) & ~word(a, w)) != 0) return false;
    return true;
  }
  constexpr int last(int a) const { return trees_[a].last; }
  constexpr std::uint64_t hash(int a) const { return trees_[a].hash; }
  constexpr std::uint64_t passes(int a) const { return trees_[a].passes; }
  /// "((0 1) (2 3))": parentheses enclose what one pass combines from the left.
  std::string text(int a) const { return trees_[a].right < 0 ? std::to_string(a) : '(' + pass(a) + ')'; }

 private:
  struct tree {
    std::uint64_t hash, passes;
    int first, last;
    int left, right;  ///< the operands; ~left if the left one is of the same pass
  };
  std::string pass(int a) const {
    const int left = trees_[a].left;
    return (left < 0 ? pass(~left) : text(left)) + ' ' + text(trees_[a].right);
  }
  constexpr std::uint64_t word(int a, int w) const { return bits_[std::ptrdiff_t{a} * words_ + w]; }
  static constexpr std::uint64_t first_ranks(int n, int w) {
    if (n >= 64 * (w + 1)) return ~std::uint64_t{0};
    return n <= 64 * w ? 0 : (std::uint64_t{1} << (n - 64 * w)) - 1;
  }
  static constexpr std::uint64_t both(std::uint64_t x, std::uint64_t y) {
    return core::stir((x + y) * 3 + core::stir(x ^ y));
  }

  int words_, pass_ = 0;
  bool finishes_ = false;
  row<std::uint64_t> bits_{};
  row<tree> trees_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule
