// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Families of schedules (`ring`, `binomial`, ...): one name for an algorithm in all its collectives.
#pragma once

#include <kolo/schedule/schedule.hpp>

#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
/// The schedule of a kind in the family A: the nested type with the kind's name.
template <kind K>
using kind_constant = std::integral_constant<kind, K>;
template <class A>
std::type_identity<typename A::allreduce> member(kind_constant<kind::allreduce>);
template <class A>
std::type_identity<typename A::reduce_scatter> member(kind_constant<kind::reduce_scatter>);
template <class A>
std::type_identity<typename A::allgather> member(kind_constant<kind::allgather>);
template <class A>
std::type_identity<typename A::broadcast> member(kind_constant<kind::broadcast>);
template <class A>
std::type_identity<typename A::reduce> member(kind_constant<kind::reduce>);
template <class A>
std::type_identity<typename A::gather> member(kind_constant<kind::gather>);
template <class A>
std::type_identity<typename A::scatter> member(kind_constant<kind::scatter>);
template <class A>
std::type_identity<typename A::alltoall> member(kind_constant<kind::alltoall>);
template <class A>
std::type_identity<typename A::scan> member(kind_constant<kind::scan>);
template <class A>
std::type_identity<typename A::exclusive_scan> member(kind_constant<kind::exclusive_scan>);
template <class A>
std::type_identity<typename A::barrier> member(kind_constant<kind::barrier>);

template <kind K, class A>
using member_of = typename decltype(member<A>(kind_constant<K>{}))::type;

/// A family that has a schedule of kind K.
template <class A, kind K>
concept FamilyFor = requires {
  requires ScheduleFor<member_of<K, A>, K>;
};

/// Calls f.operator()<K>() for each kind that a family may have a schedule for.
constexpr void for_each_kind(auto f) {
  [&]<int... K>(std::integer_sequence<int, K...>) { (f.template operator()<kind{K}>(), ...); }
  (std::make_integer_sequence<int, int(kind::barrier) + 1>{});
}

template <class A>
concept Family = FamilyFor<A, kind::allreduce> || FamilyFor<A, kind::reduce_scatter> || FamilyFor<A, kind::allgather> ||
    FamilyFor<A, kind::broadcast> || FamilyFor<A, kind::reduce> || FamilyFor<A, kind::gather> ||
    FamilyFor<A, kind::scatter> || FamilyFor<A, kind::alltoall> || FamilyFor<A, kind::scan> ||
    FamilyFor<A, kind::exclusive_scan> || FamilyFor<A, kind::barrier>;

/// A family of schedules that is not itself a schedule.
template <class A>
concept ManySchedules = Family<A> && !Schedule<A>;

/// A family that holds one schedule, whose kind is known at run time: `synthesized`.
template <class A>
concept KnowsItsKind = ManySchedules<A> && requires(const A& a) {
  a.table().collective;
};

/// The compile error of a function that takes one schedule and is given a family.
template <class A>
constexpr void ask_which() {
  static_assert(
      Schedule<A>,
      "kolo: this is a family of schedules; pass the schedule of one collective, such as ring::allreduce{} in "
      "place of ring{}, or "
      "schedule_of<kind::allreduce>(family) where the family has parameters");
}
/// Returns f(schedule) if the family knows its kind at run time; with any other family it does not compile.
template <class R, ManySchedules A, class F>
constexpr R with_one(const A& a, F f) {
  if constexpr (KnowsItsKind<A>) return a.with_schedule(f);
  else return ask_which<A>(), R{};
}
}  // namespace detail::schedule

/// The optional last argument of a collective: one schedule, or a family of them.
template <class A>
concept Algorithm = Schedule<A> || detail::schedule::Family<A>;

namespace detail::schedule {
template <class A, kind K>
concept FamilyAloneFor = !Schedule<A> && FamilyFor<A, K>;
}  // namespace detail::schedule

/// An algorithm that has a schedule of kind K.
template <class A, kind K>
concept AlgorithmFor = ScheduleFor<A, K> || detail::schedule::FamilyAloneFor<A, K>;

/// The schedule of kind K: the algorithm itself, or the family's. A family with state is the first member of its
/// schedules: `chain{.segments = 64}` becomes `chain::broadcast{chain{.segments = 64}}`.
template <kind K, AlgorithmFor<K> A>
constexpr auto schedule_of(const A& algorithm) {
  if constexpr (Schedule<A>) {
    return algorithm;
  } else {
    using S = detail::schedule::member_of<K, A>;
    if constexpr (!std::is_empty_v<A> && requires { S{algorithm}; }) return S{algorithm};
    else return S{};
  }
}

}  // namespace kolo::inline KOLO_ABI
