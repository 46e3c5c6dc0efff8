// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Families of schedules (`ring`, `binomial`, ...): one name for an algorithm, whatever the collective.
#pragma once

#include <kolo/schedule/schedule.hpp>

#include <type_traits>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
/// The schedule of kind K in the family A: the nested type that has the kind's name.
template <kind K, class A>
struct member_of {};

template <class A>
  requires ScheduleFor<typename A::allreduce, kind::allreduce>
struct member_of<kind::allreduce, A> : std::type_identity<typename A::allreduce> {
};
template <class A>
  requires ScheduleFor<typename A::reduce_scatter, kind::reduce_scatter>
struct member_of<kind::reduce_scatter, A> : std::type_identity<typename A::reduce_scatter> {
};
template <class A>
  requires ScheduleFor<typename A::allgather, kind::allgather>
struct member_of<kind::allgather, A> : std::type_identity<typename A::allgather> {
};
template <class A>
  requires ScheduleFor<typename A::broadcast, kind::broadcast>
struct member_of<kind::broadcast, A> : std::type_identity<typename A::broadcast> {
};
template <class A>
  requires ScheduleFor<typename A::reduce, kind::reduce>
struct member_of<kind::reduce, A> : std::type_identity<typename A::reduce> {
};
template <class A>
  requires ScheduleFor<typename A::gather, kind::gather>
struct member_of<kind::gather, A> : std::type_identity<typename A::gather> {
};
template <class A>
  requires ScheduleFor<typename A::scatter, kind::scatter>
struct member_of<kind::scatter, A> : std::type_identity<typename A::scatter> {
};
template <class A>
  requires ScheduleFor<typename A::alltoall, kind::alltoall>
struct member_of<kind::alltoall, A> : std::type_identity<typename A::alltoall> {
};
template <class A>
  requires ScheduleFor<typename A::scan, kind::scan>
struct member_of<kind::scan, A> : std::type_identity<typename A::scan> {
};
template <class A>
  requires ScheduleFor<typename A::exclusive_scan, kind::exclusive_scan>
struct member_of<kind::exclusive_scan, A> : std::type_identity<typename A::exclusive_scan> {
};
template <class A>
  requires ScheduleFor<typename A::barrier, kind::barrier>
struct member_of<kind::barrier, A> : std::type_identity<typename A::barrier> {
};

/// A family that can do K.
template <class A, kind K>
concept FamilyFor = requires {
  typename member_of<K, A>::type;
};

template <class A>
concept Family = FamilyFor<A, kind::allreduce> || FamilyFor<A, kind::reduce_scatter> || FamilyFor<A, kind::allgather> ||
    FamilyFor<A, kind::broadcast> || FamilyFor<A, kind::reduce> || FamilyFor<A, kind::gather> ||
    FamilyFor<A, kind::scatter> || FamilyFor<A, kind::alltoall> || FamilyFor<A, kind::scan> ||
    FamilyFor<A, kind::exclusive_scan> || FamilyFor<A, kind::barrier>;

/// Several schedules, where a function is about one.
template <class A>
concept ManySchedules = Family<A> && !Schedule<A>;

/// One of them, which is known at run time: `synthesized`.
template <class A>
concept KnowsItsKind = ManySchedules<A> && requires(const A& a) {
  a.table().collective;
};

/// What such a function says to a family.
template <class A>
constexpr void ask_which() {
  static_assert(Schedule<A>,
                "kolo: this is a family of schedules, and one is wanted, of one collective: say ring::allreduce{} in "
                "place of ring{}, or "
                "schedule_of<kind::allreduce>(family) where the family has parameters");
}
/// f(schedule) of the one that is known at run time; of another family it is not known which.
template <class R, ManySchedules A, class F>
constexpr R with_one(const A& a, F f) {
  if constexpr (KnowsItsKind<A>) return a.with_schedule(f);
  else return ask_which<A>(), R{};
}
}  // namespace detail::schedule

/// What may stand behind the arguments of a collective: one schedule, or a family of them.
template <class A>
concept Algorithm = Schedule<A> || detail::schedule::Family<A>;

namespace detail::schedule {
template <class A, kind K>
concept FamilyAloneFor = !Schedule<A> && FamilyFor<A, K>;
}  // namespace detail::schedule

/// An algorithm that can do K.
template <class A, kind K>
concept AlgorithmFor = ScheduleFor<A, K> || detail::schedule::FamilyAloneFor<A, K>;

/// The schedule of kind K: the algorithm itself, or the family's. A family with state is handed to its schedules, whose
/// first member it is: `chain{.segments = 64}` becomes `chain::broadcast{chain{.segments = 64}}`.
template <kind K, AlgorithmFor<K> A>
constexpr auto schedule_of(const A& algorithm) {
  if constexpr (Schedule<A>) {
    return algorithm;
  } else {
    using S = typename detail::schedule::member_of<K, A>::type;
    if constexpr (!std::is_empty_v<A> && requires { S{algorithm}; }) return S{algorithm};
    else return S{};
  }
}

}  // namespace kolo::inline KOLO_ABI
