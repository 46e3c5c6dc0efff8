// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the library chooses an algorithm when the caller names none: the one that is predicted to be done first.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/execute/small_call.hpp>
#include <kolo/reduce/traits.hpp>
#include <kolo/select/candidates.hpp>
#include <kolo/select/on_nodes.hpp>
#include <kolo/select/recorded.hpp>
#include <kolo/transport/abilities.hpp>

#include <algorithm>
#include <bit>
#include <climits>
#include <memory>
#include <span>

namespace kolo::inline KOLO_ABI {

/// In which order a call may combine, where rounding makes that visible.
enum class order {
  /// Any: also one that was chosen by what was measured in this run, so that the next run may differ in the last bits; and that of the transport's own
  /// collective, where MPI does not promise the same bits on every rank. Kolo's algorithms give the same bits on every rank.
  any,
  fixed_for_size  ///< the same in every run of a call with this many ranks: the same bits
};

/// The algorithm of a call that names none: of all candidates (select/candidates.hpp) that the operator, the number of ranks and the
/// counts allow, the one with the least predicted time. The prediction depends on the collective, the number of ranks, the bytes on the wire (rounded
/// down, to four lengths an octave) and a table of constants, `kolo::tuning`: the one that the program named (`kolo::use_tuning`), else the transport's own,
/// else the recorded one (select/recorded.hpp). All that is the same on every rank and in every run, and so is the choice; nobody has to
/// ask the others. `kolo::explain` tells the reasons.
///
/// Where the transport has collectives of its own (MPI's, see `native`), they are candidates as well: if the table has times for them, if all ranks
/// know that the vector has at most 2^31 - 1 bytes (never in an alltoall with counts), and if no bit is at stake: where nothing is combined, where
/// integers are, with an operator of kolo's, where they keep the order of the ranks, or where any order is allowed. They do not notice when ranks call different things, and keep the buffers
/// after a failure, so they are chosen only where they save a twentieth of the time or more; where that matters more, name a table without such times.
///
/// NCCL's come first: without times, in their own order, and of any length, unless a table was named. They give the same bits on every rank; in the next run they
/// may not, as where a switch adds. `ordered<order::fixed_for_size>(automatic{})` keeps to algorithms that do.
///
/// Where ranks live on nodes, near each other on one and far from those on others (`routed`), what goes inside a node is predicted by the recorded table of
/// shared memory, and what goes between nodes by the table; an allreduce, reduce_scatter or allgather may then be `two_level<>`, on all lanes or on one, if
/// ranks are numbered node by node. The choice depends on the nodes as well, and so do the bits. Not after `kolo::fit`, which knows one kind of link.
///
/// A table that was fitted in this run (`kolo::fit`) may only decide what changes no bit: where nothing is combined, and among candidates that combine
/// in the same order. With `ordered<order::any>(automatic{})` as the algorithm of a call, it decides everything; so it does where the operator is exact
/// on the elements (`is_exact`), since then all orders give the same bits.
struct automatic {
  static constexpr auto allowed = order::fixed_for_size;
};
struct automatic_in_any_order {
  static constexpr auto allowed = order::any;
};
struct automatic_in_fixed_order {  ///< also where the transport's own collectives come first
  static constexpr auto allowed = order::fixed_for_size;
};

namespace detail {
template <class A>
concept Automatic =
    std::same_as<std::remove_cv_t<A>, automatic> || std::same_as<std::remove_cv_t<A>, automatic_in_any_order> ||
    std::same_as<std::remove_cv_t<A>, automatic_in_fixed_order>;
}  // namespace detail

/// `kolo::allreduce(comm, x, kolo::sum, ordered<order::any>(automatic{}))`. Only the choice has an order that may be free: an algorithm that is named
/// always has the same for a number of ranks, and stays what it is.
template <order Allowed, class A>
constexpr auto ordered(const A& algorithm) {
  if constexpr (!detail::Automatic<A>) return algorithm;
  else if constexpr (Allowed == order::any) return automatic_in_any_order{};
  else return automatic_in_fixed_order{};
}

namespace detail {

/// All that a choice depends on.
struct question {
  kind collective{};
  int size = 0;
  std::size_t bytes = 0;  ///< of the vector, of all parts together; 0 where ranks need not know
  bool commutes = true;
  bool is_ragged = false;
  bool converts = false;    ///< elements travel as another type: each algorithm rounds in places of its own
  bool has_streams = true;  ///< the wire runs simple schedules as streams
  order allowed = order::fixed_for_size;
  /// The transport has a collective of its own for these elements and this operator, and no bit is at stake.
  bool takes_native = false;
  bool native_first = false;  ///< it is taken where no time of it is known
  std::size_t most_native_bytes = INT_MAX;
  const node_choice* nodes = nullptr;  ///< where there are two kinds of links

  bool admits(const candidate& c) const {
    return c.is_native ? takes_native && knows_bytes() && bytes <= most_native_bytes : fits(c);
  }
  bool fits(const candidate& c) const {
    return (commutes || c.is_ordered) && (!is_ragged || c.takes_ragged) && c.supports(size);
  }
  bool reduces_in_order() const { return reduces(collective) && allowed != order::any; }
  bool knows_bytes() const { return collective != kind::alltoall || !is_ragged; }
  pattern runs_as(const schedule_ref& s) const {
    return has_streams && !converts ? classify(s, collective, size) : pattern::rounds;
  }
  /// May a fitted table decide between candidates of this tree?
  bool leaves_bits(const candidate& c) const { return c.tree != 0 && !converts; }
};

[[gnu::cold, gnu::noinline]] inline double predicted(const candidate& c, const question& q, const tuning& table) {
  if (c.is_native) return table.native_seconds(q.size, q.collective, q.bytes);
  const schedule_ref s = c.of(q.size);
  if (q.nodes) return q.nodes->seconds(*q.nodes, s, q.collective, q.bytes, table);
  return table.seconds(q.size, q.runs_as(s), q.bytes, workload_of(s, q.collective, q.size, q.bytes, c.is_relative));
}

inline constexpr double native_is_worth = 0.95;  ///< of the time of ours; see automatic

/// The first of the fastest; of those with this tree, if one is said. What differs by rounding alone is equal: ranks may have been compiled for
/// different processors.
[[gnu::cold, gnu::noinline]] inline std::size_t fastest(std::span<const candidate> all, const question& q,
                                                        const tuning& table, int tree = 0) {
  std::size_t best = all.size();
  double least = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!q.admits(all[i]) || (tree != 0 && all[i].tree != tree)) continue;
    const double seconds = predicted(all[i], q, table);
    if (q.native_first && all[i].is_native && seconds == 0) return i;
    if (all[i].is_native && seconds == 0) continue;  // not measured
    if (best < all.size() && seconds >= least * (all[i].is_native ? native_is_worth : 1 - 1e-9)) continue;
    best = i;
    least = seconds;
  }
  return best;
}

[[gnu::cold, gnu::noinline]] inline std::size_t chosen(std::span<const candidate> all, const question& q,
                                                       const tuning& fixed, const tuning* fitted) {
  if (fitted && (!reduces(q.collective) || q.allowed == order::any)) return fastest(all, q, *fitted);
  const auto best = fastest(all, q, fixed);
  return fitted && q.leaves_bits(all[best]) ? fastest(all, q, *fitted, all[best].tree) : best;
}

/// Four to an octave. The least length of a class stands for all.
constexpr unsigned size_class(std::size_t bytes) {
  const auto width = static_cast<unsigned>(std::bit_width(bytes));
  return width < 3 ? static_cast<unsigned>(bytes) : width * 4 + static_cast<unsigned>(bytes >> (width - 3) & 3);
}
constexpr std::size_t least_of_class(unsigned c) {
  return c < 12 ? c : static_cast<std::size_t>(4 + c % 4) << (c / 4 - 3);
}

template <Transport T>
const tuning& fixed_table(const engine<T>& e) {
  if (e.named) return *e.named;
  if constexpr (Tuned<T>)
    if (const tuning* const own = e.transport.tuning()) return *own;
  return has_streams(e.transport) ? recorded::shared_memory : recorded::messages;
}

/// May `automatic` take the transport's own collective for these elements and this operator?
template <kind K, class T, class Op, order Allowed, class TransportType, bool Strict = false>
constexpr bool may_be_native() {
  if constexpr (!HasNative<TransportType>) return false;
  else
    return native_of<TransportType>::template has<K, T, Op>() &&
           (!reduces(K) || Allowed == order::any || keeps_order<TransportType> ||
            (comes_first<TransportType> && !Strict) || (std::integral<T> && is_exact<Op, T>));
}

template <kind K, Transport T>
std::span<const candidate> candidates_in(const question& q) {
  if constexpr (OnNodes<T>)
    if (q.nodes) return q.nodes->candidates_of<K>();
  return candidates_over<K, T>(q.has_streams);
}

/// What is not remembered in its first place. One rank runs no round of anything, so there the first candidate will do.
template <kind K, Transport T>
[[gnu::cold, gnu::noinline]] const resolved_call& choose_now(engine<T>& e, const question& q, std::uint64_t key) {
  const auto all = candidates_in<K, T>(q);
  e.has_chosen = true;
  if (q.size == 1) {
    static const resolved_call alone{.schedule = all[0].of(1)};
    return alone;
  }
  auto& there = e.resolved.place_for(key);
  if (there.key == key) return there.how;
  const candidate& best = all[chosen(all, q, fixed_table(e), e.fitted.get())];
  const schedule_ref s = best.of(q.size);
  there = {key, {s, best.is_native ? pattern::rounds : q.runs_as(s), best.is_native}};
  return there.how;
}

/// What the choice depends on beside the sizes. (Odd; what stands for a schedule that was named is even.)
template <kind K, bool Commutes, order Allowed, bool Native>
inline constexpr unsigned choice_flags = static_cast<unsigned>(K) << 6 | unsigned{Native} << 5 |
                                         unsigned{Commutes} << 4 | unsigned{Allowed == order::any} << 3 | 1;

/// How a call with a vector of `bytes` on the wire runs. Is remembered; never changes within a communicator.
template <kind K, bool Commutes, order Allowed, bool Native = false, Transport T>
const resolved_call& choose(engine<T>& e, std::size_t bytes, bool is_ragged, bool converts) {
  constexpr unsigned what = choice_flags<K, Commutes, Allowed, Native>;
  const unsigned length = size_class(bytes);
  const std::uint64_t key = std::uint64_t{length} << 10 | what | unsigned{is_ragged} << 2 | unsigned{converts} << 1;
  if (const auto* const known = e.resolved.find(key)) return *known;
  return choose_now<K>(e,
                       {.collective = K,
                        .size = e.transport.size(),
                        .bytes = least_of_class(length),
                        .commutes = Commutes,
                        .is_ragged = is_ragged,
                        .converts = converts,
                        .has_streams = has_streams(e.transport),
                        .allowed = Allowed,
                        .takes_native = Native && has_native_now(e.transport),
                        .native_first = comes_first<T> && !e.named,
                        .most_native_bytes = most_native_bytes<T>,
                        .nodes = nodes_under(e)},
                       key);
}

/// How a call runs that names no algorithm: `args` is complete but for that. Is it the transport's own collective?
template <kind K, bool Commutes, order Allowed, bool Native = false, Transport T>
bool resolve_automatic(engine<T>& e, collective_args& args, std::size_t bytes) {
  const auto chosen_now = [&]() -> const resolved_call& {
    return choose<K, Commutes, Allowed, Native>(e, bytes, args.send_counts, args.compute.to_wire);
  };
  const auto take = [&](const resolved_call& how) {
    ::new (&args.schedule) schedule_ref(how.schedule);  // in its place, as the rest of a small call
    args.runs_as = how.runs_as;
    return how.is_native;
  };
  call_cache::small_key key{.what = choice_flags<K, Commutes, Allowed, Native>};
  auto* const small = small_call_of(e, args, key);
  if (!small) return take(chosen_now());
  if (small->key != key) [[unlikely]] {
    small->key = {};  // should anything be thrown on the way
    small->how = chosen_now();
    take(small->how);
    plan_small_call(e, args, small->plan);
    small->key = key;
  }
  use(args, small->plan);
  return take(small->how);
}

}  // namespace detail
}  // namespace kolo::inline KOLO_ABI
