// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithms that the library selects from when the caller names none.
#pragma once

#include <kolo/execute/pattern.hpp>
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/bruck.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/circulant_pipelined.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/pairwise.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/recursive_halving.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>
#include <kolo/select/native.hpp>
#include <kolo/select/workload.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace kolo::inline KOLO_ABI::detail::select {

/// A schedule that may be selected, type-erased.
struct candidate {
  const char* name = "";
  execute::schedule_ref (*schedule)(int size) = nullptr;
  bool (*takes)(int size) = nullptr;
  execute::schedule_ref placed{};  ///< replaces both if the nodes of the ranks are known
  bool is_ordered = false;         ///< combines in the order of the ranks
  bool is_relative = false;        ///< all ranks have the same load
  bool takes_ragged = true;        ///< parts may differ in length from rank to rank
  int tree = 0;                    ///< candidates with the same number give the same bits; 0: none
  bool is_native = false;          ///< no schedule: the transport's own collective

  constexpr execute::schedule_ref of(int size) const { return placed.at ? placed : schedule(size); }
  constexpr bool supports(int size) const { return placed.at || takes(size); }
};

template <class S, class Used = void>
inline constexpr S stateless{};

template <const auto& Value>
execute::schedule_ref schedule_on(int size) {
  return execute::erase_schedule(Value, size);
}
template <const auto& Value, int Least>
bool is_taken_from(int size) {
  return size >= Least && supports(Value, size);
}
/// `Value`: the schedule, which has static storage. `Least`: the smallest number of ranks for which it is a candidate.
template <const auto& Value, int Least = 1>
constexpr candidate candidate_of(const char* name, int tree = 0, bool takes_ragged = true) {
  using S = std::remove_cvref_t<decltype(Value)>;
  return {name, &schedule_on<Value>, &is_taken_from<Value, Least>, {}, is_ordered<S>(), is_relative<S>(), takes_ragged,
          tree};
}

inline constexpr int from_left = 1;  ///< the tree that combines rank by rank

template <int Segments, class Used>
struct chain_of {
  static constexpr chain::broadcast broadcast{chain{Segments}};
  static constexpr chain::reduce reduce{chain{Segments}};
  static constexpr chain::scan scan{chain{Segments}};
  static constexpr chain::exclusive_scan exclusive_scan{chain{Segments}};
};
template <class Used>
struct two_trees_of_16 {
  static constexpr double_tree::allreduce allreduce{};
  static constexpr double_tree::broadcast broadcast{};
  static constexpr double_tree::reduce reduce{};
};
template <class Used>
struct pipelined_in_16 {
  static constexpr circulant_pipelined::broadcast broadcast{};
};

/// The candidates by collective, and by whether the transport runs simple schedules as streams. With streams the list
/// has only algorithms that were fastest for some call when all were measured (`bash bench/run.sh tune`): others would
/// only cost compile time.
///
/// `Used` delays instantiation: a file that includes this one instantiates only the tables that it uses. (The elements
/// have it, too: a compiler instantiates a constexpr function as soon as its arguments are known.)
template <kind K, bool Streams, class Used = void>
inline constexpr auto candidates_for = 0;

template <bool Streams, class Used>
inline constexpr candidate candidates_for<kind::gather, Streams, Used>[] = {
    candidate_of<stateless<one_shot::gather, Used>>("one_shot"),
    candidate_of<stateless<binomial::gather, Used>>("binomial"),
};
template <bool Streams, class Used>
inline constexpr candidate candidates_for<kind::scatter, Streams, Used>[] = {
    candidate_of<stateless<one_shot::scatter, Used>>("one_shot"),
    candidate_of<stateless<binomial::scatter, Used>>("binomial"),
};
template <bool Streams, class Used>
inline constexpr candidate candidates_for<kind::scan, Streams, Used>[] = {
    candidate_of<chain_of<1, Used>::scan>("chain of 1", from_left),
    candidate_of<chain_of<4, Used>::scan>("chain of 4", from_left),
    candidate_of<chain_of<16, Used>::scan>("chain", from_left),
    candidate_of<stateless<recursive_doubling::scan, Used>>("recursive_doubling"),
};
template <bool Streams, class Used>
inline constexpr candidate candidates_for<kind::exclusive_scan, Streams, Used>[] = {
    candidate_of<chain_of<1, Used>::exclusive_scan>("chain of 1", from_left),
    candidate_of<chain_of<4, Used>::exclusive_scan>("chain of 4", from_left),
    candidate_of<chain_of<16, Used>::exclusive_scan>("chain", from_left),
    candidate_of<stateless<recursive_doubling::exclusive_scan, Used>>("recursive_doubling"),
};
template <bool Streams, class Used>
inline constexpr candidate candidates_for<kind::barrier, Streams, Used>[] = {
    candidate_of<stateless<one_shot::barrier, Used>>("one_shot"),
    candidate_of<stateless<dissemination::barrier, Used>>("dissemination"),
};

template <class Used>
inline constexpr candidate candidates_for<kind::allreduce, true, Used>[] = {
    candidate_of<stateless<one_shot::allreduce, Used>>("one_shot", from_left),
    candidate_of<stateless<two_shot::allreduce, Used>>("two_shot", from_left),
    candidate_of<stateless<recursive_doubling::allreduce, Used>>("recursive_doubling"),
    candidate_of<stateless<circulant::allreduce, Used>>("circulant"),
};
template <class Used>
inline constexpr candidate candidates_for<kind::allreduce, false, Used>[] = {
    candidate_of<stateless<recursive_doubling::allreduce, Used>>("recursive_doubling"),
    candidate_of<stateless<circulant::allreduce, Used>>("circulant"),
    candidate_of<stateless<rabenseifner::allreduce, Used>>("rabenseifner"),
    candidate_of<stateless<ring::allreduce, Used>>("ring"),
    candidate_of<two_trees_of_16<Used>::allreduce>("double_tree"),
    candidate_of<stateless<one_shot::allreduce, Used>>("one_shot", from_left),
    candidate_of<stateless<two_shot::allreduce, Used>>("two_shot", from_left),
};

template <class Used>
inline constexpr candidate candidates_for<kind::reduce_scatter, true, Used>[] = {
    candidate_of<stateless<one_shot::reduce_scatter, Used>>("one_shot"),
    candidate_of<stateless<circulant::reduce_scatter, Used>>("circulant"),
};
template <class Used>
inline constexpr candidate candidates_for<kind::reduce_scatter, false, Used>[] = {
    candidate_of<stateless<circulant::reduce_scatter, Used>>("circulant"),
    candidate_of<stateless<recursive_halving::reduce_scatter, Used>>("recursive_halving"),
    candidate_of<stateless<ring::reduce_scatter, Used>>("ring"),
    candidate_of<stateless<pairwise::reduce_scatter, Used>>("pairwise"),
    candidate_of<stateless<one_shot::reduce_scatter, Used>>("one_shot"),
};

template <class Used>
inline constexpr candidate candidates_for<kind::reduce, true, Used>[] = {
    candidate_of<stateless<one_shot::reduce, Used>>("one_shot", from_left),
    candidate_of<stateless<two_shot::reduce, Used>, 3>("two_shot", from_left),
    candidate_of<stateless<binomial::reduce, Used>>("binomial"),
    candidate_of<stateless<circulant::reduce, Used>, 3>("circulant"),
};
template <class Used>
inline constexpr candidate candidates_for<kind::reduce, false, Used>[] = {
    candidate_of<stateless<binomial::reduce, Used>>("binomial"),
    candidate_of<stateless<circulant::reduce, Used>>("circulant"),
    candidate_of<chain_of<16, Used>::reduce>("chain"),
    candidate_of<two_trees_of_16<Used>::reduce>("double_tree"),
    candidate_of<stateless<one_shot::reduce, Used>>("one_shot", from_left),
};

template <class Used>
inline constexpr candidate candidates_for<kind::broadcast, true, Used>[] = {
    candidate_of<stateless<one_shot::broadcast, Used>>("one_shot"),
    candidate_of<stateless<binomial::broadcast, Used>>("binomial"),
    candidate_of<stateless<two_shot::broadcast, Used>, 3>("two_shot"),
    candidate_of<chain_of<16, Used>::broadcast, 3>("chain"),
};
template <class Used>
inline constexpr candidate candidates_for<kind::broadcast, false, Used>[] = {
    candidate_of<stateless<binomial::broadcast, Used>>("binomial"),
    candidate_of<stateless<van_de_geijn::broadcast, Used>>("van_de_geijn"),
    candidate_of<chain_of<16, Used>::broadcast>("chain"),
    candidate_of<two_trees_of_16<Used>::broadcast>("double_tree"),
    candidate_of<pipelined_in_16<Used>::broadcast>("circulant_pipelined"),
    candidate_of<stateless<one_shot::broadcast, Used>>("one_shot"),
};

template <class Used>
inline constexpr candidate candidates_for<kind::allgather, true, Used>[] = {
    candidate_of<stateless<one_shot::allgather, Used>>("one_shot"),
    candidate_of<stateless<circulant::allgather, Used>>("circulant"),
};
template <class Used>
inline constexpr candidate candidates_for<kind::allgather, false, Used>[] = {
    candidate_of<stateless<bruck::allgather, Used>>("bruck"),
    candidate_of<stateless<recursive_doubling::allgather, Used>>("recursive_doubling"),
    candidate_of<stateless<ring::allgather, Used>>("ring"),
    candidate_of<stateless<one_shot::allgather, Used>>("one_shot"),
};

template <class Used>
inline constexpr candidate candidates_for<kind::alltoall, true, Used>[] = {
    candidate_of<stateless<one_shot::alltoall, Used>>("one_shot"),
};
template <class Used>
inline constexpr candidate candidates_for<kind::alltoall, false, Used>[] = {
    candidate_of<stateless<one_shot::alltoall, Used>>("one_shot"),
    candidate_of<stateless<pairwise::alltoall, Used>>("pairwise"),
    candidate_of<stateless<bruck::alltoall, Used>>("bruck", 0, false),
};

/// The candidates over messages, followed by the transport's own collective.
template <kind K>
inline constexpr auto candidates_beside_native = [] {
  std::array<candidate, std::size(candidates_for<K, false>) + 1> all{};
  std::copy(std::begin(candidates_for<K, false>), std::end(candidates_for<K, false>), all.begin());
  auto& own = all.back();
  own.name = "native";
  own.schedule = [](int) { return execute::no_schedule; };
  own.takes = [](int) { return true; };
  own.is_ordered = own.is_native = true;
  return all;
}();

template <kind K, class Transport>
constexpr std::span<const candidate> candidates_over([[maybe_unused]] bool has_streams) {
  if constexpr (HasNative<Transport>) return candidates_beside_native<K>;
  else if constexpr (!SharedMemoryTransport<Transport>) return candidates_for<K, false>;
  else if constexpr (!MessageTransport<Transport>) return candidates_for<K, true>;
  else
    return has_streams ? std::span<const candidate>{candidates_for<K, true>}
                       : std::span<const candidate>{candidates_for<K, false>};
}

}  // namespace kolo::inline KOLO_ABI::detail::select
