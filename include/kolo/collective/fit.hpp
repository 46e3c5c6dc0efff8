// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables for the automatic choice: named by the user, or fitted to this machine in a few milliseconds.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/collective/gather.hpp>
#include <kolo/collective/reduce.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/collective/scan.hpp>
#include <kolo/collective/scatter.hpp>
#include <kolo/core/digest.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/schedule/two_level.hpp>
#include <kolo/select/choose.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

void not_after_a_choice(auto& comm, const char* operation) {
  if (comm.engine()->has_chosen)
    comm.engine()->refuse(operation,
                          "this communicator has already chosen an algorithm: call this before its first collective "
                          "that names none, or on a new one (split)");
}

/// Seconds of one schedule, run as a user would run it: the fastest of four runs, on the slowest rank. All ranks begin
/// together, as in the benchmark that tables come from: otherwise a rank that only sends would run ahead, and a
/// receiver would find all data there.
double probe(auto& comm, auto&& run) {
  double least = 0;
  run();
  for (int i = 0; i < 4; ++i) {
    kolo::barrier(comm, one_shot{});
    const double begin = detail::transport::seconds_now(comm.transport());
    run();
    const double seconds = detail::transport::seconds_now(comm.transport()) - begin;
    if (i == 0 || seconds < least) least = seconds;
  }
  kolo::allreduce(comm, std::span{&least, 1}, kolo::max, one_shot{});
  return least;
}

/// The time of an allreduce of `bytes` that combines by max.
double seconds_of_max(auto& comm, const auto& family, std::size_t bytes) {
  std::vector<float> x(bytes / sizeof(float));
  return probe(comm, [&] { kolo::allreduce(comm, x, kolo::max, family); });
}

template <Transport T, class S>
workload work_of(const S& s, int size, std::size_t bytes, pattern runs_as) {
  return select::workload_of(execute::erase_schedule(s, size), S::collective, size, bytes, kolo::is_relative<S>(),
                             HasBoard<T> && execute::uses_board(S::collective, runs_as, size));
}

/// The lengths that a fit measures.
inline constexpr std::size_t small_bytes = 64, large_bytes = 256 * 1024;

struct measured_pattern {
  pattern runs_as;
  double small, large;  ///< seconds
  workload small_work, large_work;
};

/// Limits a factor to the range of plausible networks: from one faster than memory to one that starts in milliseconds
/// and carries 10 MB/s. A factor beyond these comes from a disturbed measurement.
inline double believable(double factor) { return std::clamp(factor, 1e-3, 1e3); }

/// Scales the costs per round and message by the small measurement, the costs per byte by the additional time of the
/// large one.
inline void scale(tuning& table, int size, const measured_pattern& m) {
  const double start = believable(m.small / table.seconds(size, m.runs_as, small_bytes, m.small_work));
  workload starts = m.large_work;
  starts.bytes = starts.shared = starts.combined = 0;
  const double starting = table.seconds(size, m.runs_as, large_bytes, starts);
  const double moving = table.seconds(size, m.runs_as, large_bytes, m.large_work) - starting;
  const double move = moving > 0 ? believable((m.large - start * starting) / moving) : 1;
  for (auto& row : table.rows) {
    if (row.runs_as != m.runs_as) continue;
    for (auto* constant : {&row.round, &row.hop, &row.duplex, &row.message}) *constant *= start;
    for (auto* constants : {&row.bytes, &row.shared, &row.combined})
      for (double& c : *constants) c *= move;
  }
}

/// Scales the costs of combining alone: by the time of a combining schedule minus that of everything else in it.
inline void scale_combining(tuning& table, int size, const measured_pattern& m) {
  workload rest = m.large_work;
  rest.combined = 0;
  const double all = table.seconds(size, m.runs_as, large_bytes, m.large_work),
               others = table.seconds(size, m.runs_as, large_bytes, rest);
  const double factor = all > others ? believable((m.large - others) / (all - others)) : 1;
  for (auto& row : table.rows)
    if (row.runs_as == m.runs_as)
      for (double& c : row.combined) c *= factor;
}

/// Runs the transport's own collective on a vector of x.size() floats, which is a multiple of the ranks.
template <kind K, class C>
void run_natively(C& comm, std::span<float> x, std::span<float> y) {
  const auto part = x.size() / std::size_t(comm.size());
  const native own{};
  if constexpr (K == kind::allreduce) kolo::allreduce(comm, x, y, kolo::max, own);
  else if constexpr (K == kind::reduce_scatter) kolo::reduce_scatter(comm, x, y.first(part), kolo::max, own);
  else if constexpr (K == kind::allgather) kolo::allgather(comm, x.first(part), y, own);
  else if constexpr (K == kind::broadcast) kolo::broadcast(comm, x, 0, own);
  else if constexpr (K == kind::reduce) kolo::reduce(comm, x, y, kolo::max, 0, own);
  else if constexpr (K == kind::gather) kolo::gather(comm, x.first(part), y, 0, own);
  else if constexpr (K == kind::scatter) kolo::scatter(comm, x, y.first(part), 0, own);
  else if constexpr (K == kind::alltoall) kolo::alltoall(comm, x, y, own);
  else if constexpr (K == kind::scan) kolo::scan(comm, x, y, kolo::max, own);
  else if constexpr (K == kind::exclusive_scan) kolo::exclusive_scan(comm, x, y, kolo::max, own);
  else kolo::barrier(comm, own);
}

/// Measured at every fourth length up to half a mebibyte; interpolated between these, and proportional beyond.
template <kind K, class C>
tuning::native_times fit_natively(C& comm) {
  tuning measured;
  auto& row = measured.native[0];
  row.ranks = comm.size();
  auto& seconds = row.seconds[std::size_t(K)];
  constexpr std::size_t last = 8, apart = 4;
  const auto p = std::size_t(comm.size());
  for (std::size_t i = 0; i <= last; i += apart) {
    std::vector<float> x(std::max(p, tuning::native_sizes[i] / sizeof(float) / p * p)), y(x.size());
    seconds[i] = probe(comm, [&] { run_natively<K>(comm, std::span<float>{x}, std::span<float>{y}); });
    for (std::size_t k = 1; i > 0 && k < apart; ++k)
      seconds[i - k] = seconds[i] * std::pow(seconds[i - apart] / seconds[i], double(k) / apart);
  }
  const auto length = [](std::size_t i) { return double(tuning::native_sizes[i]); };
  for (std::size_t i = last + 1; i < seconds.size(); ++i)
    seconds[i] = seconds[last] * (K == kind::barrier ? 1 : length(i) / length(last));
  return seconds;
}

/// Calls see(x) for all numbers of a table, in one order.
void for_each_number(const tuning& table, auto see) {
  for (const auto& r : table.rows) {
    for (double x : {double(r.ranks), double(r.runs_as), r.round, r.hop, r.duplex, r.message}) see(x);
    for (const auto* constants : {&r.bytes, &r.shared, &r.combined})
      for (double x : *constants) see(x);
  }
  for (const auto& r : table.native) {
    see(double(r.ranks));
    for (const auto& times : r.seconds)
      for (double x : times) see(x);
  }
}

/// Refuses `operation` with that text unless all ranks call it with the same values. Ranks get a mismatch where one
/// calls a collective.
void require_alike(auto& comm, const char* operation, const core::digest& values, const std::string& otherwise) {
  struct call {
    char operation[16];
    std::uint64_t digest;
  } mine{{}, values.value};
  auto& e = *comm.engine();
  std::string_view{operation}.copy(mine.operation, sizeof mine.operation - 1);
  const auto here = e.begin_alone(operation);
  for (const call& its : transport::small_allgather(execute::host_transport_of(e.transport), mine, operation)) {
    if (std::string_view{its.operation} != operation)
      e.refuse(operation, "another rank calls " + std::string{its.operation});
    if (its.digest != mine.digest) e.refuse(operation, otherwise);
  }
}

}  // namespace detail::collective

/// Collective: the automatic choice of this communicator, and of those split off it, uses `table` from now on; an
/// earlier fitted one is dropped. Call it before the first collective that names no algorithm. The table is the same on
/// every rank, so every run that names it makes the same choices, with the same bits.
/// Errors  invalid_argument: ranks name different tables; an algorithm has been chosen already; a table without a row
///         for `pattern::rounds`, as which every schedule may run; a constant that is negative, infinite or no number.
void use_tuning(Communicator auto& comm, const tuning& table) {
  detail::collective::not_after_a_choice(comm, "use_tuning");
  if (!table.row_for(comm.size(), pattern::rounds))
    comm.engine()->refuse("use_tuning", "the table has no row for pattern::rounds");
  detail::core::digest all;
  detail::collective::for_each_number(table, [&](double x) {
    if (!(x >= 0 && std::isfinite(x)))
      comm.engine()->refuse("use_tuning", "a constant of the table is negative, infinite or not a number");
    all.add(std::bit_cast<std::uint64_t>(x));
  });
  detail::collective::require_alike(comm, "use_tuning", all, "the ranks name different tables");
  comm.engine()->named = std::make_unique<const tuning>(table);
  comm.engine()->fitted.reset();
  comm.engine()->resolved.fitted_nodes.reset();
}

/// Collective: measures a few collectives for some milliseconds, and scales the table that this communicator uses to
/// this machine as it is now. Over MPI it measures MPI's own collectives as well, in some tens of milliseconds: the way
/// to a measured table on a cluster. Call it before the first collective that names no algorithm. The choice uses the
/// fitted table if that can change no bit, and if the call names `ordered<order::any>(automatic{})`; see `automatic`.
/// Returns the fitted table, the same on all ranks: store it (adapt/json.hpp) and pass it to `use_tuning` in later
/// runs, and all their choices use it. Communicators that are split off must be fitted themselves.
/// Errors  invalid_argument: an algorithm has been chosen already.
template <Communicator C>
tuning fit(C& comm) {
  using T = typename C::transport_type;
  using detail::collective::small_bytes, detail::collective::large_bytes, detail::collective::seconds_of_max,
      detail::collective::work_of, detail::select::stateless;
  detail::collective::not_after_a_choice(comm, "fit");
  const int p = comm.size();
  tuning table = detail::select::fixed_table(*comm.engine());
  if (p == 1) return table;
  detail::collective::require_alike(comm, "fit", {}, "the ranks name different nodes");
  const auto scale_by = [&](pattern runs_as, const auto& s, auto&& seconds) {
    const double at_small = seconds(small_bytes), at_large = seconds(large_bytes);
    detail::collective::scale(
        table, p,
        {runs_as, at_small, at_large, work_of<T>(s, p, small_bytes, runs_as), work_of<T>(s, p, large_bytes, runs_as)});
  };
  const auto combining = [&](const auto& family) {
    return [&](std::size_t bytes) { return seconds_of_max(comm, family, bytes); };
  };
  const auto moving = [&](const auto& family) {
    return [&](std::size_t bytes) {
      std::vector<float> x(bytes / sizeof(float));
      const auto move = [&] { kolo::broadcast(comm, x, 0, family); };
      for (int i = 0; i < 8; ++i) move();  // until a ring buffer has all its pages
      return detail::collective::probe(comm, move);
    };
  };
  const bool has_streams = detail::transport::has_streams(comm.transport());
  if (has_streams) {
    scale_by(pattern::exchange, stateless<one_shot::allreduce>, combining(one_shot{}));
    scale_by(pattern::there_and_back, stateless<two_shot::allreduce>, combining(two_shot{}));
    scale_by(pattern::one_way, stateless<one_shot::broadcast>, moving(one_shot{}));
  }
  scale_by(pattern::rounds, stateless<chain::broadcast>, moving(chain{}));
  if (!has_streams) {
    const double seconds = seconds_of_max(comm, circulant{}, large_bytes);
    detail::collective::scale_combining(table, p,
                                        {pattern::rounds,
                                         seconds,
                                         seconds,
                                         {},
                                         work_of<T>(stateless<circulant::allreduce>, p, large_bytes, pattern::rounds)});
  }
  if constexpr (detail::select::HasNative<T>) {
    table.native = {};
    auto& row = table.native[0];
    row.ranks = p;
    detail::schedule::for_each_kind(
        [&]<kind K>() { row.seconds[std::size_t(K)] = detail::collective::fit_natively<K>(comm); });
  }
  comm.engine()->fitted = std::make_unique<const tuning>(table);
  comm.engine()->resolved.fitted_nodes.reset();
  return table;
}

/// Collective: `fit(comm)`, then measures `two_level<>` on these nodes, which is a candidate from then on wherever the
/// fitted table decides an allreduce, a reduce_scatter or an allgather. The nodes may be parts of a host:
/// `fit(comm, topology_of(comm, locality::cache))`. The table that is returned is the one of `fit(comm)`.
/// Errors  those of `fit(comm)`; invalid_argument: the ranks do not fill the nodes, or name different ones.
template <Communicator C>
tuning fit(C& comm, const topology& nodes) {
  using detail::collective::small_bytes, detail::collective::large_bytes, detail::collective::seconds_of_max;
  const int p = comm.size();
  if (!nodes.holds(p)) comm.engine()->refuse("fit", "the nodes do not hold the ranks of this communicator");
  detail::core::digest all;
  all.add(std::uint64_t(nodes.ranks_per_node));
  for (const auto n : nodes.sizes) all.add(n);
  detail::collective::require_alike(comm, "fit", all, "the ranks name different nodes");
  const tuning table = fit(comm);
  if (nodes.nodes(p) == 1 || nodes.nodes(p) == p) return table;
  using T = typename C::transport_type;
  const two_level<> on_both{.nodes = nodes};
  const auto s = schedule_of<kind::allreduce>(on_both);
  const auto work = [&](std::size_t bytes) { return detail::collective::work_of<T>(s, p, bytes, pattern::rounds); };
  tuning measured = table;
  detail::collective::scale(measured, p,
                            {pattern::rounds, seconds_of_max(comm, on_both, small_bytes),
                             seconds_of_max(comm, on_both, large_bytes), work(small_bytes), work(large_bytes)});
  const bool has_streams = detail::transport::has_streams(comm.transport());
  comm.engine()->resolved.fitted_nodes = std::make_shared<const detail::select::node_schedules<>>(
      nodes, p, measured, [&]<kind K>() { return detail::select::candidates_over<K, T>(has_streams); });
  return table;
}

}  // namespace kolo::inline KOLO_ABI
