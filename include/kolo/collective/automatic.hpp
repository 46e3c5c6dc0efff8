// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the library chooses an algorithm when the caller names none: the one that is predicted to be done first.
#pragma once

#include <kolo/collective/candidates.hpp>
#include <kolo/collective/recorded.hpp>
#include <kolo/transport/communicator.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <span>

namespace kolo::inline v0 {

/// What a result may depend on, besides its operands.
enum class order {
  any,            ///< on how fast this machine was today: ranks agree, runs may differ in the last bits
  fixed_for_size  ///< on the number of ranks: the same bits on every rank and in every run
};

/// The algorithm of a call that names none: of all candidates (collective/candidates.hpp) that the operator, the number of ranks and the
/// counts allow, the one with the least predicted time. The prediction depends on the collective, the number of ranks, the size class of the
/// vector (four to an octave of bytes) and a table, `kolo::tuning`: the one that the user named (`kolo::use_tuning`), else the transport's own, else
/// the recorded one (collective/recorded.hpp). So every rank and every run chooses alike. `kolo::explain` tells the reasons.
///
/// A table that was fitted in this run (`kolo::fit`) is used where it cannot change a bit: if nothing is combined, among candidates that combine in
/// the same order, and wherever `ordered<order::any>(automatic{})` allows it.
struct automatic {
  static constexpr auto allowed = order::fixed_for_size;
};
struct automatic_in_any_order {
  static constexpr auto allowed = order::any;
};

/// `ordered<order::any>(automatic{})`. Every other algorithm has one order for a number of ranks, and stays what it is.
template <order Allowed, class A>
constexpr A ordered(const A& algorithm) {
  return algorithm;
}
template <order Allowed>
constexpr auto ordered(automatic) {
  if constexpr (Allowed == order::any) return automatic_in_any_order{};
  else return automatic{};
}

namespace detail {

template <class A>
concept Automatic = std::same_as<std::remove_cv_t<A>, automatic> || std::same_as<std::remove_cv_t<A>, automatic_in_any_order>;

/// All that a choice depends on.
struct question {
  kind collective{};
  int size = 0;
  std::size_t bytes = 0;   ///< of the vector, of all parts together; 0 where ranks need not know
  bool commutes = true;
  bool is_ragged = false;
  bool has_streams = true; ///< the wire runs simple schedules as streams
  order allowed = order::fixed_for_size;

  bool admits(const candidate& c) const {
    return (commutes || c.is_ordered) && (!is_ragged || c.takes_ragged) && c.supports(size);
  }
};

[[gnu::cold, gnu::noinline]] inline double predicted(const candidate& c, const question& q, const tuning& table) {
  const schedule_ref s = c.schedule(q.size);
  const pattern runs_as = q.has_streams ? recognise(s, q.collective, q.size) : pattern::rounds;
  return table.seconds(q.size, runs_as, q.bytes, workload_of(s, q.collective, q.size, q.bytes, c.is_relative));
}

/// The first of the fastest; of those with this tree, if one is said.
[[gnu::cold, gnu::noinline]] inline std::size_t fastest(std::span<const candidate> all, const question& q, const tuning& table, int tree = 0) {
  std::size_t best = all.size();
  double least = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!q.admits(all[i]) || (tree != 0 && all[i].tree != tree)) continue;
    const double seconds = predicted(all[i], q, table);
    if (best < all.size() && seconds >= least) continue;
    best = i;
    least = seconds;
  }
  return best;
}

[[gnu::cold, gnu::noinline]] inline std::size_t chosen(std::span<const candidate> all, const question& q, const tuning& fixed, const tuning* fitted) {
  if (fitted && (!reduces(q.collective) || q.allowed == order::any)) return fastest(all, q, *fitted);
  const auto best = fastest(all, q, fixed);
  return fitted && all[best].tree != 0 ? fastest(all, q, *fitted, all[best].tree) : best;
}

/// Four to an octave. The least length of a class stands for all.
constexpr unsigned size_class(std::size_t bytes) {
  const auto width = static_cast<unsigned>(std::bit_width(bytes));
  return width < 3 ? static_cast<unsigned>(bytes) : width * 4 + static_cast<unsigned>(bytes >> (width - 3) & 3);
}
constexpr std::size_t least_of_class(unsigned c) { return c < 12 ? c : static_cast<std::size_t>(4 + c % 4) << (c / 4 - 3); }

template <Transport T>
const tuning& fixed_table(const engine<T>& e) {
  if (e.named) return *e.named;
  if constexpr (requires { { e.transport.tuning() } -> std::same_as<const tuning&>; }) return e.transport.tuning();
  else if constexpr (Pairing<T>) return recorded::shared_memory;
  else return recorded::messages;
}

template <kind K, Transport T>
question question_for(const engine<T>& e, std::size_t bytes) {
  return {.collective = K, .size = e.transport.size(), .bytes = least_of_class(size_class(bytes)), .has_streams = Pairing<T>};
}

struct remembered_choice {
  std::uint64_t key = 0;
  schedule_ref schedule{};
};
inline constexpr std::size_t remembered_choices = 64;

template <kind K, Transport T>
[[gnu::cold, gnu::noinline]] void choose_now(engine<T>& e, std::uint64_t key, const question& q, remembered_choice& result) {
  const auto& all = candidates_for<K, Pairing<T>>;
  e.has_chosen = true;
  result = {key, all[q.size == 1 ? 0 : chosen(all, q, fixed_table(e), e.fitted.get())].schedule(q.size)};
}

/// The schedule for a vector of `bytes`. Is remembered, so that a small call looks it up. Never changes within a communicator.
template <kind K, bool Commutes, order Allowed, Transport T>
const schedule_ref& choose(engine<T>& e, std::size_t bytes, bool is_ragged) {
  constexpr unsigned what = static_cast<unsigned>(K) << 3 | unsigned{Commutes} << 2 | unsigned{Allowed == order::any} << 1;
  const unsigned length = size_class(bytes);
  const std::uint64_t key = (std::uint64_t{length} << 8 | what | unsigned{is_ragged}) + 1;
  const bool is_new = !e.choices.at_least(0);
  auto* const memory = reinterpret_cast<remembered_choice*>(e.choices.at_least(remembered_choices * sizeof(remembered_choice)));
  if (is_new) std::uninitialized_fill_n(memory, remembered_choices, remembered_choice{});
  auto& choice = memory[(length + what) % remembered_choices];
  if (choice.key != key) {
    question q = question_for<K>(e, bytes);
    q.commutes = Commutes;
    q.is_ragged = is_ragged;
    q.allowed = Allowed;
    choose_now<K>(e, key, q, choice);
  }
  return choice.schedule;
}

}  // namespace detail
}  // namespace kolo::inline v0
