// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compile-time checks of a call, with messages on how to correct it, placed as close to the call as possible.
#pragma once

#include <kolo/collective/call.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::collective {

/// The types that some collective takes as an argument.
template <class X>
concept KnownArgument = ViewLike<X> || AnyOperator<X> || AnyAlgorithm<X> || RootLike<std::remove_cv_t<X>>;

// A compiler prints the instantiation path of an error before the error, a line each. So these classes assert, and none
// of them uses another one; entry.hpp instantiates them before anything else; and kolo.hpp includes this header first.

/// An argument of type X, which may be one that only this collective `takes`.
template <class X, bool Takes>
struct sound_argument {
  static constexpr bool yes = Takes || KnownArgument<X>;
  using plain = std::remove_cv_t<X>;
  static_assert(yes || !std::is_pointer_v<plain>,
                "kolo: a pointer does not say how many elements there are: write std::span{pointer, count} in place of "
                "the pointer and the count");
  static_assert(yes || !std::is_arithmetic_v<plain>,
                "kolo: a number is not a view: write std::span{&x, 1} for a view of x alone");
  static_assert(
      yes || !std::is_same_v<plain, std::vector<bool>>,
      "kolo: a std::vector<bool> packs its elements into bits, so they have no addresses: use std::vector<char>");
  static constexpr bool almost_algorithm = requires { plain::collective; };
  static_assert(yes || !almost_algorithm,
                "kolo: this type has a member `collective`, as an algorithm has, but is not one: "
                "static_assert(kolo::Schedule<S>) says which of blocks(p), rounds(p) and at(r, p, k) is missing or "
                "neither static nor const");
  static constexpr bool almost_view = requires(plain & x) {
    x.size();
    requires !std::is_trivially_copyable_v<std::remove_cvref_t<decltype(*x.data())>>;
  };
  static_assert(yes || !almost_view,
                "kolo: the elements of this view are not trivially copyable (std::pair and std::tuple are not): use a "
                "struct of their members");
  static_assert(yes || almost_algorithm || almost_view || std::is_pointer_v<plain> || std::is_arithmetic_v<plain> ||
                    std::is_same_v<plain, std::vector<bool>>,
                "kolo: a collective does not take this argument; it takes a view (contiguous, trivially copyable "
                "elements; kolo::strided; kolo::bucket; a type T of your own for which kolo::View<T> holds), an "
                "operator, counts, a root or an algorithm; options come last, and are a decltype(comm)::options");
};

/// The parts of a call, found among its arguments: its first two views (a single one is read and written), its operator
/// and its algorithm.
enum class part { view, op, algorithm, root, other };
template <class X>
inline constexpr part part_is = ViewLike<X>                     ? part::view
                                : AnyAlgorithm<X>               ? part::algorithm
                                : AnyOperator<X>                ? part::op
                                : RootLike<std::remove_cv_t<X>> ? part::root
                                                                : part::other;

/// The index of the first p from `from` on; the size of `all` if there is none. With _GLIBCXX_DEBUG g++ 12 evaluates no
/// std::find of these at compile time.
constexpr std::size_t first_of(std::initializer_list<part> all, part p, std::size_t from = 0) {
  while (from < all.size() && all.begin()[from] != p) ++from;
  return from;
}
template <class... X>
struct parts_of {
  static constexpr int views = std::min(2, ((part_is<X> == part::view ? 1 : 0) + ... + 0));
  static constexpr bool has_root = ((part_is<X> == part::root) || ...);
  /// Further views are counts.
  static constexpr bool has_sound_counts = [](int n) {
    return (true && ... && (part_is<X> != part::view || ++n <= 2 || CountsLike<X>));
  }(0);
  template <std::size_t Index, class Otherwise = execute::none>
  using at = std::tuple_element_t<Index, std::tuple<X..., Otherwise>>;

  static constexpr std::size_t view = first_of({part_is<X>...}, part::view);
  using in = at<view>;
  static constexpr std::size_t last_view = views < 2 ? view : first_of({part_is<X>...}, part::view, view + 1);
  using out = at<last_view>;
  using op = std::remove_cv_t<at<first_of({part_is<X>...}, part::op)>>;
  using algorithm = std::remove_cv_t<at<first_of({part_is<X>...}, part::algorithm), automatic>>;
};

/// Whether all parts are there that a collective of kind K needs.
template <kind K, class P>
struct complete_parts {
  static constexpr bool has_views = P::views > 0 || K == kind::barrier;
  static constexpr bool has_sound_counts = !schedule::has_parts(K) || P::has_sound_counts;  // others take no counts
  static constexpr bool yes =
      has_sound_counts && has_views &&
      (!schedule::reduces(K) || !std::same_as<typename P::op, execute::none>)&&(!core::has_root(K) || P::has_root);
  static_assert(has_sound_counts,
                "kolo: counts must be integers (not bools or characters), contiguous in host memory: use a "
                "std::vector<std::size_t>");
  static_assert(has_views, "kolo: there is no view among the arguments: write std::span{&x, 1} for a number x");
  static_assert(!has_views || !schedule::reduces(K) || !std::same_as<typename P::op, execute::none>,
                "kolo: the operator is missing. It comes after the views: kolo::allreduce(comm, x, kolo::sum)");
  static_assert(
      !has_views || !core::has_root(K) || P::has_root,
      "kolo: the root is missing. Its rank comes after views, counts and operator: kolo::broadcast(comm, x, 0)");
};

/// How in and out relate to each other, and to the communicator's memory. `Writes`: the call writes into out.
template <class In, class Out, class TransportType, bool Writes>
struct sound_views {
  static constexpr bool yes = true;
  static constexpr memory_space here = space_of<TransportType>, first = space_of<view_of<In>>,
                                second = space_of<view_of<Out>>;
  static_assert(std::same_as<view_element_t<In>, view_element_t<Out>>,
                "kolo: in and out must have the same element type");
  static_assert(!Writes || WritableViewLike<Out>,
                "kolo: the output is a view of const elements: pass one that may be written");
  static_assert((first == memory_space::host && second == memory_space::host) || here == memory_space::device,
                "kolo: this view is of device memory, and the communicator takes host memory only: use one for "
                "devices, such as kolo::cuda::mpi_communicator");
  static_assert((first == memory_space::device && second == memory_space::device) || here == memory_space::host,
                "kolo: this view is of host memory, and the communicator takes device memory: "
                "kolo::device_span{pointer, count} is a view of device memory");
};

/// The operator and the order in which a call combines elements of type T. Whether the operator fits the elements:
/// reduce/operators.hpp.
template <class T, class Op, class S>
struct sound_operator {
  static constexpr bool yes = true;
  static constexpr bool is_untyped = reduce::is_untyped_operator<Op> || std::same_as<T, view::unknown_element>;
  static_assert(!is_untyped || (reduce::is_untyped_operator<Op> && std::same_as<T, view::unknown_element>),
                "kolo: elements whose type is known at run time only (kolo::elements) need a kolo::reduction or a "
                "kolo::by_kernel as operator, and these take no other elements");
  static_assert(!is_untyped || schedule::leaves_of<S> == 0,
                "kolo: order::tree<L> takes elements of a type that is known at compile time");
  static constexpr bool in_order = [] {
    if constexpr (schedule::Automatic<S> || select::Native<S>) return true;
    else return is_ordered<S>();
  }();
  static_assert(is_commutative<Op> || in_order,
                "kolo: the operator does not commute, and this algorithm does not declare that it combines in the "
                "order of the ranks: use recursive_doubling, one_shot, two_shot, binomial or chain; an algorithm of "
                "your own that keeps the order declares static constexpr bool ordered = true");
};

template <kind K, class A>
struct sound_algorithm {
  static constexpr bool yes = true;
  static_assert(schedule::Automatic<A> || select::Native<A> || AlgorithmFor<A, K>,
                "kolo: this algorithm implements another collective than the one that is called");
};

/// For a call whose options precede the algorithm.
template <class Last>
struct options_are_last {
  static_assert(sizeof(Last) == 0, "kolo: options come last: write the algorithm before them");
};
/// For a call without a communicator.
template <class First>
struct communicator_is_first {
  static_assert(sizeof(First) == 0,
                "kolo: the first argument of a collective is the communicator: kolo::allreduce(comm, x, kolo::sum)");
};

}  // namespace kolo::inline KOLO_ABI::detail::collective
