// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The common base of all collectives: the object that owns the parts of a call, and its checks.
#pragma once

#include <kolo/execute/call_types.hpp>
#include <kolo/execute/calls.hpp>
#include <kolo/execute/executor_type.hpp>
#include <kolo/reduce/kernel.hpp>
#include <kolo/reduce/operators.hpp>
#include <kolo/schedule/automatic.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/select/native.hpp>
#include <kolo/view/view.hpp>

#include <concepts>
#include <cstddef>
#include <new>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::collective {

template <class A>
concept AnyAlgorithm = schedule::Automatic<A> || select::Native<A> || Algorithm<std::remove_cv_t<A>>;
inline constexpr automatic automatically{};

/// The result of `make` for wrong arguments, after a failed static_assert.
struct no_call {
  collective_args args{};
  execute::none in{}, op{};
};

/// Counts of a call whose parts differ from rank to rank; others have none.
struct no_counts {};
struct counts_of_parts {
  std::vector<std::size_t> send_counts{}, receive_counts{};
};

/// Views, operator, schedule and counts of one call. It is constructed in its final place, and `fill(*this)` sets its
/// arguments.
template <class In, class Out, class Op, class S, class Counts>
struct call : Counts {
  collective_args args{};

  template <class F>
  call(const In& i, const Out& o, const Op& operation, const S& s, F fill) : in{i}, out{o}, op{operation}, schedule{s} {
    fill(*this);
  }
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  In in;
  Out out;
  Op op;
  S schedule;
  std::byte token{};  ///< a barrier sends it
};

/// A call that is started or planned, and outlives its statement: it owns all its parts.
template <class Call>
struct owned_call final : execute::any_call {
  template <class Make>
  explicit owned_call(Make make) : of{make()} {
    args = of.args;
  }
  void begin() override {
    if constexpr (has_copies) of.in.copy_in();
  }
  void end() override {
    if constexpr (has_copies) of.in.copy_out();
  }
  static constexpr bool has_copies = requires(Call & c) { c.in.copy_in(); };
  Call of;
};

void require(auto& comm, const char* operation, bool condition, const char* sentence) {
  if (!condition) [[unlikely]]
    execute::refuse(*comm.engine(), operation, sentence);
}
void require(auto& comm, kind k, bool condition, const char* sentence) { require(comm, name(k), condition, sentence); }
/// The sentence is `first` n `second` m.
void require(auto& comm, const char* operation, bool condition, const char* first, std::integral auto n,
             const char* second, std::integral auto m) {
  if (!condition) [[unlikely]]
    execute::refuse(*comm.engine(), operation, first, static_cast<long long>(n), second, static_cast<long long>(m));
}
/// Requires that n and m are equal.
void require_equal(auto& comm, const char* operation, const char* first, std::size_t n, const char* second,
                   std::size_t m) {
  require(comm, operation, n == m, first, n, second, m);
}

template <class S>
void require_support(auto& comm, const char* operation, const S& algorithm, int size) {
  if (!supports(algorithm, size)) [[unlikely]]
    execute::refuse_algorithm(*comm.engine(), operation, execute::type_name<S>());
}

using view::are_disjoint;
inline bool same(const memory& a, const memory& b) {
  return a.base == b.base && a.count == b.count && !a.find && !b.find;
}

void require_same_or_disjoint(auto& comm, kind k, const memory& in, const memory& out) {
  require(comm, k, same(in, out) || are_disjoint(in, out), "in and out overlap without being the same");
}

/// Elements [first, first + count) of `m`, if it is contiguous.
inline memory part_of(const memory& m, std::size_t first, std::size_t count) {
  memory part = m;
  if (!m.find) part.base += first * m.element_bytes;
  part.count = count;
  return part;
}

/// One of in and out has the parts of all ranks, the other only this rank's: they must not overlap, except that the
/// latter may be this rank's part of the former.
template <kind K, class C>
void require_own_part_or_disjoint(C& comm, const collective_args& args, std::size_t own_first, int root = 0) {
  constexpr bool gathers = K == kind::allgather || K == kind::gather;
  const memory &all = gathers ? args.out : args.in, &own = gathers ? args.in : args.out;
  const bool matters = !core::has_root(K) || comm.rank() == root;
  require(comm, K, !matters || are_disjoint(own, all) || same(own, part_of(all, own_first, own.count)),
          gathers ? "in overlaps out without being this rank's part of it"
                  : "out overlaps in without being this rank's part of it");
}

std::vector<std::size_t> counts_from(auto& comm, kind k, const auto& view) {
  const auto numbers = kolo::as_view(view);
  std::vector<std::size_t> counts;
  counts.reserve(numbers.size());
  for (const auto n : numbers) {
    require(comm, k, std::cmp_greater_equal(n, 0), "a count is negative");
    counts.push_back(std::size_t(n));
  }
  return counts;
}

template <class X>
concept NumberedEnum = std::is_enum_v<X> && std::is_convertible_v<X, int>;
/// A root's number: an integer of any type, or an enumerator that converts to one.
template <class X>
concept RootLike = std::is_integral_v<X> || NumberedEnum<X>;

int rank_from(auto& comm, kind k, const RootLike auto& number, const char* it_is = "the root is ") {
  const auto rank = static_cast<long long>(number);
  require(comm, name(k), rank >= 0 && rank < comm.size(), it_is, rank, ", and this communicator has ranks 0 to ",
          comm.size() - 1);
  return int(rank);
}

inline constexpr const char* uncountable = "all ranks together have more elements than can be counted";
/// The number of elements of all ranks, at n per rank.
std::size_t of_all_ranks(auto& comm, kind k, std::size_t n) {
  std::size_t total = 0;
  require(comm, k, !__builtin_mul_overflow(n, std::size_t(comm.size()), &total), uncountable);
  return total;
}
/// The sum of one number per rank.
std::size_t check_counts(auto& comm, kind k, const std::vector<std::size_t>& counts) {
  require_equal(comm, name(k), "there must be one count per rank, in all ", std::size_t(comm.size()),
                "; given: ", counts.size());
  std::size_t total = 0;
  for (const auto n : counts) require(comm, k, !__builtin_add_overflow(total, n, &total), uncountable);
  return total;
}
inline std::size_t first_of(const std::vector<std::size_t>& counts, int rank) {
  std::size_t first = 0;
  for (int r = 0; r < rank; ++r) first += counts[std::size_t(r)];
  return first;
}

void require_leaves(auto& comm, kind k, int leaves) {
  require(comm, k, leaves % comm.size() == 0,
          "the number of ranks does not divide the leaves of the tree: with one vector a rank, take 1, 2, 4, ... ranks "
          "and at most one for each leaf");
}

/// An integer type other than bool and characters.
template <class T>
inline constexpr bool is_count =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
    !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;
template <class X>
concept CountsLike = ViewLike<const X> && ContiguousView<view_of<const X>> && is_count<view_element_t<const X>> &&
    (space_of<view_of<const X>> == memory_space::host);

/// A collective that combines nothing allows any order.
template <class Op>
constexpr bool commutes() {
  if constexpr (std::same_as<Op, execute::none>) return true;
  else return is_commutative<Op>;
}

/// Compile-time checks of a call that keeps to one tree.
template <kind K, class T, class Op, class S>
constexpr void check_one_tree() {
  using W = detail::reduce::wire_element_t<Op, T>;
  constexpr bool is_converted = !std::same_as<T, W>;
  static_assert(detail::reduce::wire_group<W> == 0 || K == kind::allreduce,
                "kolo: only an allreduce takes a wire with scales, kolo::wire<kolo::scaled<...>>");
  if constexpr (schedule::reduces(K) && !is_exact<Op, T> && schedule::keeps_one_tree<S>) {
    static_assert(K != kind::reduce_scatter || !is_converted,
                  "kolo: a reduce_scatter with a wire type rounds every operand but the owner's, so the bits of an "
                  "element depend on its rank: it cannot keep one order for any count");
    static_assert(schedule::leaves_of<S> == 0 || K == kind::allreduce || K == kind::reduce,
                  "kolo: only allreduce and reduce take order::tree<L>");
    static_assert(
        schedule::leaves_of<S> == 0 || !is_converted,
        "kolo: order::tree<L> takes no wire type: the result would be rounded less often on one rank than on two");
    static_assert(schedule::leaves_of<S> == 0 || !Finishes<Op, reduce::accumulator_t<T, Op>> ||
                      std::same_as<T, reduce::accumulator_t<T, Op>>,
                  "kolo: order::tree<L> does not average elements of 16 bits: use kolo::sum, and divide");
  }
}

/// An operator that finishes the combination of L leaves, whatever the number of ranks.
template <class Op, int L>
struct over_leaves : Op {
  static constexpr bool finishes_alone = true;
  constexpr explicit over_leaves(const Op& op) : Op(op) {}
  template <class X>
  requires Finishes<Op, X> KOLO_HOST_DEVICE constexpr auto finish(const X& x, int) const {
    return static_cast<const Op&>(*this).finish(x, L);
  }
};
/// The operator with which a call runs.
template <class A, class T, class Op>
constexpr auto operator_of_call(const Op& op) {
  if constexpr (0 < schedule::leaves_of<std::remove_cv_t<A>> && Finishes<Op, T>)
    return over_leaves<Op, schedule::leaves_of<std::remove_cv_t<A>>>{op};
  else return op;
}

// For elements that travel in groups: collective/scaled.hpp.
template <class Op, class Algorithm>
struct scaled_call;
template <class T>
std::span<const select::candidate> candidates_that_reduce_once(const select::selection_query& q);

/// Whether S is known by the destinations that ranks compare, so that its type may differ: collective/permute.hpp.
template <class S>
inline constexpr bool is_known_by_its_map = false;

/// The properties that follow from the types of a call of K by Op and schedule S over a transport.
template <kind K, class T, class Op, class S, class TransportType>
constexpr execute::call_traits traits_of_call() {
  check_one_tree<K, T, Op, S>();
  execute::call_traits t{.how = {.collective = K}, .types = execute::type_hash<T>() ^ 3 * execute::type_hash<Op>()};
  if (!is_known_by_its_map<S>) t.types ^= 5 * execute::type_hash<S>();
  if constexpr (schedule::Automatic<S>) {
    constexpr bool is_strict = std::same_as<S, schedule::automatic_in_fixed_order>;
    constexpr bool may = select::may_be_native<K, T, Op, S::allowed, TransportType, is_strict>();
    constexpr auto allowed = is_exact<Op, T> ? order::any : S::allowed;
    t.is_automatic = true;
    constexpr bool once = 0 < detail::reduce::wire_group<detail::reduce::wire_element_t<Op, T>>;
    t.how = {K, commutes<Op>(), allowed, may, &select::candidates_in<K, TransportType>, once};
    if constexpr (schedule::keeps_one_tree<S> && schedule::reduces(K) && allowed != order::any)
      t.how.candidates = &select::candidates_of_one_tree<TransportType>;
    if constexpr (once) t.how.candidates = &candidates_that_reduce_once<TransportType>;
    if constexpr (may) t.native = select::native_start<TransportType, K, T, Op>();
  } else if constexpr (select::Native<S>) {
    t.native = select::native_start<TransportType, K, T, Op>();
  }
  return t;
}
template <kind K, class T, class Op, class S, class TransportType>
inline constexpr execute::call_traits traits_of = traits_of_call<K, T, Op, S, TransportType>();

// For elements whose type is known at run time only: collective/untyped.hpp.
template <kind K, class C, class Call>
kernel untyped_kernel(C& comm, const Call& c);
template <class In, class Op>
execute::call_traits untyped_traits(execute::call_traits traits, const In& in, const Op& op);
template <class In, class Op>
execute::call_types untyped_types(execute::call_types types, const In& in, const Op& op);

/// Sets the arguments that follow from the parts of a call, and makes the checks common to all collectives. `count`:
/// elements of the vector, or of one part; `agreed`: elements that all ranks must agree on.
template <kind K, class T, class C, class Call>
void complete(C& comm, Call& c, std::size_t count, std::size_t agreed, int root = 0) {
  using TransportType = typename C::transport_type;
  using Op = decltype(c.op);
  using S = decltype(c.schedule);
  using Executor = typename execute::executor_type<TransportType>::type;
  collective_args& args = c.args;
  args.collective = K;
  // Constructed in place: copying them from the stack takes longer than a small exchange can spare.
  if constexpr (View<decltype(c.in)>) ::new (&args.in) memory(kolo::erase(c.in));
  if constexpr (View<decltype(c.out)>) ::new (&args.out) memory(kolo::erase(c.out));
  if constexpr (UntypedView<decltype(c.in)>) ::new (&args.compute) kernel(untyped_kernel<K>(comm, c));
  else if constexpr (std::same_as<Op, execute::none>) ::new (&args.compute) kernel(reduce::copy_kernel<T>());
  else if constexpr (requires { Executor::template make_kernel<T>(c.op); })
    ::new (&args.compute) kernel(Executor::template make_kernel<T>(c.op));
  else ::new (&args.compute) kernel(make_kernel<T>(c.op));
  args.count = count;
  if constexpr (requires { c.send_counts; }) {
    if (!c.send_counts.empty()) args.send_counts = c.send_counts.data();
    if (!c.receive_counts.empty()) args.receive_counts = c.receive_counts.data();
  }
  args.root = root;
  if constexpr (core::has_root(K) && schedule::AnyRoot<S>) c.schedule.root = root, args.root = 0;
  if constexpr (0 < schedule::leaves_of<S>) require_leaves(comm, K, schedule::leaves_of<S>);
  if constexpr (select::Native<S>) {
    args.schedule = execute::no_schedule;
  } else if constexpr (!schedule::Automatic<S>) {
    if (const int size = comm.size(); size > 1) {
      if constexpr (core::has_root(K) && requires { c.schedule.only_root(); })
        require(comm, name(K), root == c.schedule.only_root(), "the schedule is made for root ", c.schedule.only_root(),
                ", and the call names ", root);
      require_support(comm, name(K), c.schedule, size);
      ::new (&args.schedule) execute::schedule_ref(execute::erase_schedule(c.schedule, size));
    }
  }
  constexpr auto& traits = traits_of<K, T, Op, S, TransportType>;
  if constexpr (UntypedView<decltype(c.in)>)
    execute::prepare_call(*comm.engine(), args, untyped_traits(traits, c.in, c.op), agreed, root);
  else execute::prepare_call(*comm.engine(), args, traits, agreed, root);
}

/// The same for parts of different lengths. `own_has`: begins a sentence about the length of this rank's part;
/// `all_has`: about that of all parts together, which a rooted kind has on the root only.
template <kind K, class T, class C, class Call>
void complete_ragged(C& comm, Call& c, const auto& counts, const char* own_has, std::size_t own, const char* all_has,
                     std::size_t all, int root = 0) {
  c.send_counts = counts_from(comm, K, counts);
  const auto total = check_counts(comm, K, c.send_counts);
  if (!core::has_root(K) || comm.rank() == root)
    require_equal(comm, name(K), all_has, all, " elements, and the counts add up to ", total);
  require_equal(comm, name(K), own_has, own, " elements, and this rank's count is ",
                c.send_counts[std::size_t(comm.rank())]);
  complete<K, T>(comm, c, K == kind::reduce_scatter ? total : 0, total, root);
  require_own_part_or_disjoint<K>(comm, c.args, first_of(c.send_counts, comm.rank()), root);
}

/// The schedule of an algorithm. `automatic` stays as it is until the sizes are known, and `native` has none.
template <kind K, class A>
constexpr auto schedule_or_automatic(const A& algorithm) {
  if constexpr (schedule::Automatic<A> || select::Native<A>) {
    return algorithm;
  } else {
    return schedule_of<K>(algorithm);
  }
}
template <kind K, class A>
using schedule_type = decltype(schedule_or_automatic<K>(std::declval<std::remove_cv_t<A>>()));

/// `fill(call)` runs when the call is in its final place.
template <kind K, class Counts = no_counts, class In, class Out, class Op, class A, class F>
auto make_call(const In& in, const Out& out, const Op& op, const A& algorithm, F fill) {
  return call<In, Out, std::decay_t<Op>, schedule_type<K, A>, Counts>{in, out, op, schedule_or_automatic<K>(algorithm),
                                                                      fill};  // a function becomes a pointer
}

}  // namespace kolo::inline KOLO_ABI::detail::collective
