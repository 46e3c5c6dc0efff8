// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Selects an algorithm when the caller names none: the one with the least predicted time.
#pragma once

#include <kolo/core/log.hpp>
#include <kolo/core/text.hpp>
#include <kolo/execute/calls.hpp>
#include <kolo/execute/engine.hpp>
#include <kolo/execute/small_call_plan.hpp>
#include <kolo/schedule/automatic.hpp>
#include <kolo/select/candidates.hpp>
#include <kolo/select/default_tuning.hpp>
#include <kolo/select/native.hpp>
#include <kolo/select/on_nodes.hpp>
#include <kolo/select/one_tree.hpp>
#include <kolo/select/selection_query.hpp>
#include <kolo/transport/abilities.hpp>

#include <bit>
#include <new>
#include <span>

namespace kolo::inline KOLO_ABI::detail::select {

[[gnu::cold, gnu::noinline]] inline double predicted(const candidate& c, const selection_query& q,
                                                     const tuning& table) {
  if (c.is_native) return table.native_seconds(q.size, q.collective, q.bytes);
  const execute::schedule_ref s = c.of(q.size);
  if (q.nodes && q.nodes->predicts(c)) return q.nodes->seconds(*q.nodes, s, q.collective, q.bytes, table);
  const pattern p = q.runs_as(s);
  return table.seconds(q.size, p, q.bytes,
                       workload_of(s, q.collective, q.size, q.bytes, c.is_relative,
                                   q.has_board && execute::uses_board(q.collective, p, q.size)));
}

inline constexpr double native_is_worth = 0.95;  ///< the part of kolo's time that it must stay below; see automatic

/// Returns the index of the fastest eligible candidate, the first of equals; with `tree`, of that tree only. Times that
/// differ only by rounding are equal, because ranks may have been compiled for different processors.
[[gnu::cold, gnu::noinline]] inline std::size_t fastest(std::span<const candidate> all, const selection_query& q,
                                                        const tuning& table, int tree = 0) {
  std::size_t best = all.size();
  double least = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!q.is_eligible(all[i]) || (tree != 0 && all[i].tree != tree)) continue;
    const double seconds = predicted(all[i], q, table);
    if (q.native_first && all[i].is_native && seconds == 0) return i;
    if (all[i].is_native && seconds == 0) continue;  // not measured
    if (best < all.size() && seconds >= least * (all[i].is_native ? native_is_worth : 1 - 1e-9)) continue;
    best = i;
    least = seconds;
  }
  return best;
}

/// Whether the table fitted in this run is used: only if the call does not reduce, or may combine in any order.
inline bool uses_fit(const selection_query& q, const tuning* fitted) {
  return fitted && (!schedule::reduces(q.collective) || q.allowed == order::any);
}
inline const tuning& deciding(const selection_query& q, const tuning& fixed, const tuning* fitted) {
  return uses_fit(q, fitted) ? *fitted : fixed;
}

[[gnu::cold, gnu::noinline]] inline std::size_t chosen(std::span<const candidate> all, const selection_query& q,
                                                       const tuning& fixed, const tuning* fitted) {
  const auto best = fastest(all, q, deciding(q, fixed, fitted));
  if (!fitted || !q.leaves_bits(all[best])) return best;
  selection_query of_one_link = q;  // the fitted table is of all links together
  of_one_link.nodes = nullptr;
  return fastest(all, of_one_link, *fitted, all[best].tree);
}

/// Formats microseconds with two decimals.
inline std::string in_microseconds(double seconds) {
  const auto hundredths = static_cast<unsigned long long>(seconds * 1e8 + 0.5);
  return core::text_of({hundredths / 100, hundredths % 100 < 10 ? ".0" : ".", hundredths % 100, " us"});
}

/// "allreduce of 64 bytes among 4 ranks"; a barrier has no vector.
[[gnu::cold, gnu::noinline]] inline std::string call_text(kind k, std::size_t bytes, int ranks) {
  if (k == kind::barrier) return core::text_of({name(k), " among ", core::ranks_text(ranks)});
  return core::text_of({name(k), " of ", bytes, " bytes among ", core::ranks_text(ranks)});
}

/// Logs the choice and its reason: the predicted time of each candidate.
[[gnu::cold, gnu::noinline]] inline void log_choice(int rank, std::span<const candidate> all, const candidate& best,
                                                    const selection_query& q, const tuning& table) {
  const std::string of = call_text(q.collective, q.bytes, q.size);
  core::log_line(rank,
                 {of, " runs as ", best.name, ", predicted to take ", in_microseconds(predicted(best, q, table))});
  if (core::logs < core::log_trace) return;
  for (const candidate& c : all)
    core::log_line(rank, {"  ", of, ", ", c.name, ": ",
                          q.is_eligible(c) ? in_microseconds(predicted(c, q, table)) : "does not do this call"});
}

/// Four size classes per power of two. The smallest length of a class represents all its lengths.
constexpr unsigned size_class(std::size_t bytes) {
  const auto width = unsigned(std::bit_width(bytes));
  return width < 3 ? unsigned(bytes) : width * 4 + unsigned(bytes >> (width - 3) & 3);
}
constexpr std::size_t least_of_class(unsigned c) { return c < 12 ? c : std::size_t(4 + c % 4) << (c / 4 - 3); }

template <Transport T>
const tuning& fixed_table(const execute::engine<T>& e) {
  if (e.named) return *e.named;
  if constexpr (Tuned<T>)
    if (const tuning* const own = e.transport.tuning()) return *own;
  return transport::has_streams(e.transport) ? default_tuning::shared_memory : default_tuning::messages;
}

template <kind K, class T>
std::span<const candidate> candidates_in(const selection_query& q) {
  if (q.nodes)
    if (const auto all = q.nodes->candidates_of<K>(); !all.empty()) return all;
  return candidates_over<K, T>(q.has_streams);
}

/// The query of a call with a vector of `bytes` on the wire.
template <Transport T>
[[gnu::cold, gnu::noinline]] selection_query query_of(const execute::engine<T>& e, const execute::choice& c,
                                                      std::size_t bytes, bool is_ragged, bool converts) {
  selection_query q{.collective = c.collective,
                    .size = e.transport.size(),
                    .bytes = bytes,
                    .commutes = c.commutes,
                    .is_ragged = is_ragged,
                    .converts = converts,
                    .has_streams = transport::has_streams(e.transport),
                    .has_board = HasBoard<T> && transport::has_streams(e.transport),
                    .allowed = c.allowed,
                    .takes_native = c.may_be_native && is_native_available(e.transport),
                    .native_first = ComesFirst<T> && !e.named,
                    .most_native_bytes = most_native_bytes<T>};
  q.nodes = uses_fit(q, e.fitted.get()) ? e.resolved.fitted_nodes.get() : nodes_under(e);
  return q;
}

/// Selects and caches; called if the first cache entry has another key. One rank runs no rounds.
template <Transport T>
[[gnu::cold, gnu::noinline]] const execute::resolved_call& choose_now(execute::engine<T>& e, const execute::choice& c,
                                                                      std::size_t bytes, bool is_ragged, bool converts,
                                                                      std::uint64_t key) {
  e.has_chosen = true;
  if (e.transport.size() == 1) {
    static const execute::resolved_call alone{};
    return alone;
  }
  const selection_query q = query_of(e, c, bytes, is_ragged, converts);
  auto& there = e.resolved.entry_for(key);
  if (there.key == key) return there.how;
  const auto all = c.candidates(q);
  const candidate& best = all[chosen(all, q, fixed_table(e), e.fitted.get())];
  if (core::logs != core::log_nothing) [[unlikely]]
    log_choice(e.transport.rank(), all, best, q, deciding(q, fixed_table(e), e.fitted.get()));
  const execute::schedule_ref s = best.of(q.size);
  there = {key, {s, best.is_native ? pattern::rounds : q.runs_as(s), best.is_native}};
  return there.how;
}

/// What the choice depends on besides the sizes. (Odd; the key of a named schedule is even.)
constexpr unsigned flags_of(const execute::choice& c) {
  return unsigned(c.collective) << 8 | unsigned{c.reduces_once} << 7 | unsigned{c.may_be_native} << 6 |
         unsigned{c.commutes} << 5 | unsigned(c.allowed.is) << 3 | 1;
}

/// Returns how a call with a vector of `bytes` on the wire runs. Cached; constant within a communicator.
template <Transport T>
const execute::resolved_call& choose(execute::engine<T>& e, const execute::choice& c, std::size_t bytes, bool is_ragged,
                                     bool converts) {
  const unsigned length = size_class(bytes);
  const std::uint64_t key =
      std::uint64_t{length} << 12 | flags_of(c) | unsigned{is_ragged} << 2 | unsigned{converts} << 1;
  if (const auto* const known = e.resolved.find(key)) return *known;
  return choose_now(e, c, least_of_class(length), is_ragged, converts, key);
}

/// Resolves a call that names no algorithm; the rest of `args` is complete. Returns whether it uses the transport's own
/// collective.
template <Transport T>
bool resolve_automatic(execute::engine<T>& e, collective_args& args, const execute::choice& c, std::size_t bytes) {
  const auto select_now = [&]() -> const execute::resolved_call& {
    return select::choose(e, c, bytes, args.send_counts, args.compute.to_wire);
  };
  const auto take = [&](const execute::resolved_call& how) {
    ::new (&args.schedule) execute::schedule_ref(how.schedule);  // in place, like the rest of a small call
    args.runs_as = how.runs_as;
    return how.is_native;
  };
  execute::call_cache::small_key key{.what = flags_of(c)};
  auto* const small = execute::small_call_of(e, args, key);
  if (!small) return take(select_now());
  if (small->key != key) [[unlikely]] {
    small->how = select_now();
    take(small->how);
    execute::plan_small_call(e, args, small->plan);
    small->key = key;
  }
  execute::use(args, small->plan);
  return take(small->how);
}

}  // namespace kolo::inline KOLO_ABI::detail::select
