// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shift and permute: every rank's vector goes to another rank, all of them in one round.
#pragma once

#include <kolo/collective/entry.hpp>
#include <kolo/core/digest.hpp>
#include <kolo/schedule/permuted.hpp>

#include <cstdint>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

template <class Map>
inline constexpr bool is_known_by_its_map<permuted<Map>> = true;

/// The call of that name by schedule `s`. `key`: a hash of the destinations, so that ranks detect different ones.
template <class C, class In, class Out, class S>
auto make_permutation(C& comm, const char* name, In& in, Out& out, const S& s, std::uint64_t key) {
  constexpr auto K = kind::permutation;
  return make_call<K>(kolo::as_view(in), kolo::as_view(out), execute::none{}, s, [&](auto& c) {
    const auto n = c.in.size();
    c.args.called = name;
    require_equal(comm, name, "in has ", n, " elements, and out has ", c.out.size());
    complete<K, view_element_t<In>>(comm, c, n, n ^ key << 40);
    require(comm, name, are_disjoint(c.args.in, c.args.out), "in and out overlap");
  });
}

struct shift {
  static constexpr auto K = kind::permutation;

  template <class C, ViewLike In, ViewLike Out, RootLike Distance, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Distance& distance, A&) {
    static_assert(schedule::Automatic<A>,
                  "kolo: a shift takes no algorithm: leave it out, or pass your schedule to permute");
    const auto whole = +distance;  // no narrower than int
    const int d = mod(int(whole % static_cast<decltype(+distance)>(comm.size())), comm.size());
    return make_permutation(comm, "shift", in, out, shifted_by{d}, std::uint64_t(d));
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0, "kolo::shift takes (comm, in, out, distance), then options");
    return {};
  }
};

struct permute {
  static constexpr auto K = kind::permutation;
  template <class X>
  static constexpr bool takes = RankMap<X>;

  template <class C, ViewLike In, ViewLike Out, AnyAlgorithm A>
    requires ScheduleFor<std::remove_cv_t<A>, K>
  static auto make(C& comm, In& in, Out& out, A& algorithm) {
    const int p = comm.size();
    if (p > 1) require_support(comm, "permute", algorithm, p);
    return make_permutation(comm, "permute", in, out, algorithm, hash(p, [&](int r) {
                              if (p == 1) return 0;
                              const step s = algorithm.at(r, p, 0);
                              return s.size() > 0 && s[0].to.count > 0 ? s[0].to.first : r;
                            }));
  }
  template <class C, ViewLike In, ViewLike Out, RankMap Map, AnyAlgorithm A>
  static auto make(C& comm, In& in, Out& out, Map& map, A&) {
    static_assert(schedule::Automatic<A>, "kolo: permute takes a map or a schedule, not both");
    const permuted<std::remove_cv_t<Map>> by{map};
    const int p = comm.size();
    require(comm, "permute", by.supports(p), "the map is not a permutation of these ranks");
    return make_permutation(comm, "permute", in, out, by, hash(p, [&](int r) { return by.map(r, p); }));
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    static_assert(sizeof...(Wrong) == 0,
                  "kolo::permute takes (comm, in, out, map), then options; map(rank, size) is the rank to which that "
                  "one's goes, or a schedule");
    return {};
  }

 private:
  /// A hash of the destinations of p ranks.
  template <class F>
  static std::uint64_t hash(int p, F destination) {
    core::digest all;
    for (int r = 0; r < p; ++r) all.add(destination(r));
    return all.value;
  }
};

}  // namespace detail::collective

/// shift(comm, in, out, distance [, options])
///
/// Before  rank r holds n elements in `in`; n and the distance, of any sign and size, are equal on all ranks.
/// After   rank r has in `out` the elements of rank r - distance, circularly. in and out do not overlap.
/// Cost    1 round; n elements sent and received by each rank.
/// Order   nothing is combined.
/// Errors  invalid_argument: lengths that differ, any overlap. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::shift> shift{};
inline constexpr detail::collective::started<detail::collective::shift> start_shift{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::shift> plan_shift{};   ///< gives a plan

/// permute(comm, in, out, map [, options])
///
/// `map` is a pure function (rank, size) -> rank, or a schedule of kind permutation.
///
/// Before  rank r holds n elements in `in`; n and the map are equal on all ranks, and the map is a permutation.
/// After   rank map(r, p) has them in `out`. in and out do not overlap.
/// Cost    1 round; n elements sent and received by each rank that does not keep its own; 3 p calls of the map, and for
///         a map with state p^2.
/// Order   nothing is combined.
/// Errors  invalid_argument: lengths that differ, any overlap, on every rank a map that is no permutation. Any:
///         kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::permute> permute{};
inline constexpr detail::collective::started<detail::collective::permute> start_permute{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::permute> plan_permute{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI
