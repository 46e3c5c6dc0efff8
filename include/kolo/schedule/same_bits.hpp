// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The proof that two schedules give the same bits: they combine every block by the same tree. Opt-in.
#pragma once

#include <kolo/schedule/verify.hpp>

#include <string>

namespace kolo::inline KOLO_ABI {

/// The type of partial results, which decides whether the places where they are stored affect the bits.
enum class partial_results {
  as_elements,  ///< as the elements: float, double, integers, structures; only the tree counts
  /// float for elements of 16 bits, rounded at the end of each pass: the division into passes counts too, and whether
  /// an average is divided in a pass.
  wider
};

/// Reasons why two schedules may give different bits.
enum class bits_fault {
  none,
  unsupported,      ///< one of them does not support this number of ranks
  unproven,         ///< one of them breaks a law of `Schedule`; see `first` and `second`
  other_tree,       ///< a block is combined by another tree
  rounds_elsewhere  ///< the tree is the same, but is divided into other passes, or finished in another one
};

constexpr const char* sentence(bits_fault d) {
  switch (d) {
    case bits_fault::none: return "the same bits";
    case bits_fault::unsupported: return "one of the two does not support this number of ranks";
    case bits_fault::unproven: return "one of the two is wrong";
    case bits_fault::other_tree: return "combined by different trees";
    case bits_fault::rounds_elsewhere: return "combined by the same tree, and rounded or finished at different places";
  }
  return "";
}

/// True if both give the same bits. Otherwise it has the first block that differs, and its tree in each schedule:
/// "((0 1) (2 3))" is recursive doubling with four ranks; "(0 1 2 3)" is combined from the left in one pass.
struct bits_verdict {
  bits_fault what = bits_fault::none;
  kind collective{};
  int size = 0;
  int rank = -1;  ///< the rank that ends with the block
  int block_of_first = -1, block_of_second = -1;
  verdict first{}, second{};
  std::string tree_of_first{}, tree_of_second{};

  operator bool() const { return what == bits_fault::none; }

  using printed_by_message = void;  ///< by `<<`: core/text.hpp
  /// "allreduce of 4 ranks: rank 0, block 2: combined by different trees: (((2 3) 0) 1), and ((0 1) (2 3))"
  std::string message() const {
    std::string text = std::string{name(collective)} + " of " + detail::core::ranks_text(size) + ": ";
    if (what == bits_fault::unproven) return (first ? second : first).message();
    if (rank >= 0) text += "rank " + std::to_string(rank) + ", block " + std::to_string(block_of_first);
    if (block_of_second != block_of_first) text += " and block " + std::to_string(block_of_second) + " of the other";
    text += std::string{rank >= 0 ? ": " : ""} + sentence(what);
    return tree_of_first.empty() ? text : text + ": " + tree_of_first + ", and " + tree_of_second;
  }
};

namespace detail::schedule {

/// Two proofs, whose trees are compared.
///
/// If both cut a vector (or each part of it) into the same number of blocks, an element is in the same block of both,
/// whatever the length. If one has a blocks and the other b > a, all blocks of both must have one tree; nothing less
/// suffices. In a vector of a elements, element i is in block i of both. A long vector has elements in block j of b and
/// in block floor(j a / b) of a, which is less than j for j > 0. So a chain of elements joins every block to block 0.
class comparer {
 public:
  struct finding {
    bits_fault what = bits_fault::none;
    int size = 0, rank = -1, block_of_first = -1, block_of_second = -1;
  };

  constexpr comparer(const erased_schedule& a, const erased_schedule& b, partial_results partials)
      : a_{a}, b_{b}, partials_{partials}, of_a_{a}, of_b_{b} {
    found_.size = a.size;
  }

  constexpr const finding& run() {
    first_ = of_a_.run();
    second_ = of_b_.run();
    if (!first_ || !second_) return found_.what = bits_fault::unproven, found_;
    for (int r = 0; r < a_.size && found_.what == bits_fault::none; ++r) look_at(r);
    return found_;
  }

  constexpr const verdict& first() const { return first_; }
  constexpr const verdict& second() const { return second_; }
  std::string tree_of_first() const { return text(of_a_, found_.rank, found_.block_of_first); }
  std::string tree_of_second() const { return text(of_b_, rank_of_second(found_.rank), found_.block_of_second); }

 private:
  /// Compares the result of rank r; for a reduce, the results of the two roots.
  constexpr void look_at(int r) {
    if (!required_after(a_.collective, r, first_wanted(a_, r), a_.blocks, a_.size, a_.root)) return;
    const int n = wanted(a_), m = wanted(b_);
    for (int i = 0; i < n; ++i)
      if (!compare(r, i, n == m ? i : 0)) return;
    for (int j = 0; n != m && j < m; ++j)
      if (!compare(r, 0, j)) return;
  }
  constexpr bool compare(int r, int i, int j) {
    const int here = first_wanted(a_, r) + i, there = first_wanted(b_, r) + j;
    const int x = of_a_.result(r, here), y = of_b_.result(rank_of_second(r), there);
    const bool same_tree = of_a_.known().hash(x) == of_b_.known().hash(y);
    if (same_tree && (partials_ == partial_results::as_elements || of_a_.known().passes(x) == of_b_.known().passes(y)))
      return true;
    found_ = {same_tree ? bits_fault::rounds_elsewhere : bits_fault::other_tree, a_.size, r, here, there};
    return false;
  }

  /// The number of blocks that one rank ends with, and the first of them.
  static constexpr int wanted(const erased_schedule& s) {
    return has_parts(s.collective) ? s.blocks / s.size : s.blocks;
  }
  static constexpr int first_wanted(const erased_schedule& s, int r) {
    return has_parts(s.collective) ? r * wanted(s) : block_sets(s.collective) == 2 ? s.blocks : 0;
  }
  constexpr int rank_of_second(int r) const { return a_.collective == kind::reduce ? b_.root : r; }
  static std::string text(const prover& p, int r, int b) { return b < 0 ? "" : p.known().text(p.result(r, b)); }

  const erased_schedule &a_, &b_;
  partial_results partials_;
  prover of_a_, of_b_;
  verdict first_{}, second_{};
  finding found_{};
};

template <class A, class B>
constexpr void check_comparable() {
  static_assert(A::collective == B::collective, "kolo: same_bits compares two schedules of one collective");
  static_assert(reduces(A::collective), "kolo: this collective combines nothing, so there are no bits to compare");
}
}  // namespace detail::schedule

/// Whether both schedules combine every element by the same tree, whatever the length of the vector. The two operands
/// of a combination may be swapped: either the operator commutes, or both schedules keep the order of the ranks. Also
/// proves both schedules. Costs two proofs.
template <Schedule A, Schedule B>
bits_verdict compare_bits(const A& a, const B& b, int size, partial_results partials = partial_results::as_elements) {
  detail::schedule::check_comparable<A, B>();
  bits_verdict v{.collective = A::collective, .size = size};
  v.first = verify(a, size), v.second = verify(b, size);
  if (v.first.what == fault::unsupported || v.second.what == fault::unsupported)
    return v.what = bits_fault::unsupported, v;
  if (!v.first || !v.second) return v.what = bits_fault::unproven, v;
  if (size == 1) return v;
  const detail::schedule::erased<A> first{a, size};
  const detail::schedule::erased<B> second{b, size};
  detail::schedule::comparer both{first, second, partials};
  const auto found = both.run();
  v.what = found.what;
  v.rank = found.rank;
  v.block_of_first = found.block_of_first;
  v.block_of_second = found.block_of_second;
  v.tree_of_first = both.tree_of_first();
  v.tree_of_second = both.tree_of_second();
  return v;
}
template <class A, class B>
  requires detail::schedule::ManySchedules<A> || detail::schedule::ManySchedules<B> bits_verdict
  compare_bits(const A&, const B&, int, partial_results = {}) {
    if constexpr (detail::schedule::ManySchedules<A>) detail::schedule::ask_which<A>();
    else detail::schedule::ask_which<B>();
    return {};
  }

/// The difference of two schedules, as types, so that a compiler's message shows it.
template <bits_fault What, class Size, class Rank, class BlockOfFirst, class BlockOfSecond>
struct bits_differ {
  static_assert(
      What == bits_fault::none,
      "kolo: these two schedules do not give the same bits. The arguments of bits_differ say why, for how many "
      "ranks, and at which rank and block of each; kolo::compare_bits(a, b, p), at run time, shows both trees.");
};

namespace detail::schedule {
template <Schedule A, Schedule B, int Size, partial_results Kept>
constexpr comparer::finding compare_now() {
  if (!supports(A{}, Size) || !supports(B{}, Size)) return {};
  const A a{};
  const B b{};
  const erased<A> first{a, Size};
  const erased<B> second{b, Size};
  if (misfit_of(first) || misfit_of(second)) return {bits_fault::unproven, Size};
  return comparer{first, second, Kept}.run();
}
template <Schedule A, Schedule B, int Size, partial_results Kept>
inline constexpr comparer::finding finding_for = compare_now<A, B, Size, Kept>();

template <Schedule A, Schedule B, int Size, int Last, partial_results Kept>
constexpr comparer::finding first_difference() {
  constexpr auto here = finding_for<A, B, Size, Kept>;
  if constexpr (Size == Last || here.what != bits_fault::none) return here;
  else return first_difference<A, B, Size + 1, Last, Kept>();
}

template <Schedule A, Schedule B>
constexpr bool support_one_size(int first, int last) {
  for (int size = first; size <= last; ++size)
    if (supports(A{}, size) && supports(B{}, size)) return true;
  return false;
}

template <Schedule A, Schedule B, int First, int Last, partial_results Kept>
constexpr bool have_same_bits() {
  check_comparable<A, B>();
  static_assert(2 <= First && First <= Last, "kolo: give the smallest and the largest number of ranks, 2 or more");
  static_assert(support_one_size<A, B>(First, Last),
                "kolo: no number of ranks in this range is supported by both schedules");
  constexpr auto f = first_difference<A, B, First, Last, Kept>();
  using differ = bits_differ<f.what, where::size<f.size>, where::rank<f.rank>, where::block<f.block_of_first>,
                             where::block<f.block_of_second>>;
  [[maybe_unused]] constexpr differ stops_here_if_they_do{};
  return true;
}
}  // namespace detail::schedule

/// `same_bits<A, B, 2, 16>`: A and B give the same bits for every number of ranks from 2 to 16 that both support. Never
/// false: two schedules that differ do not compile.
template <class A, class B, int First = 2, int Last = 16, partial_results Kept = partial_results::as_elements>
inline constexpr bool same_bits = detail::schedule::have_same_bits<A, B, First, Last, Kept>();

}  // namespace kolo::inline KOLO_ABI
