// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost model of a transport: a table of constants, from which the time of any schedule is predicted.
#pragma once

#include <kolo/config.hpp>

#include <array>
#include <cstddef>

namespace kolo::inline KOLO_ABI {

enum class kind;  // of a collective; core/kind.hpp

/// How the executor runs a schedule. It is determined from the steps of all ranks, so that all ranks agree.
enum class pattern : unsigned char {
  unknown,
  rounds,    ///< one round after the other; no simpler pattern applies
  one_way,   ///< one round in which a rank exchanges at most one block with each of its peers
  exchange,  ///< the same, and a rank that sends to a peer also receives from it
  /// two rounds: blocks are exchanged and combined, and each result returns to the ranks that sent its operands
  there_and_back
};

/// The quantities that determine the time of a schedule; select/workload.hpp counts them.
struct workload {
  double rounds = 0;
  double hops = 0;  ///< the longest chain of messages in which each depends on the one before
  /// Rounds in which a rank both sends and receives, so that no rank runs ahead; the maximum over the ranks.
  double duplex_rounds = 0;
  double messages = 0;  ///< sent or received, whichever are more, by the busiest rank
  double bytes = 0;     ///< the same
  double shared = 0;    ///< bytes that all ranks send, divided by the ranks; they cost time where ranks share cores
  double combined = 0;  ///< bytes that the busiest rank combines
};

/// The constants by which a prediction multiplies a `workload`: seconds for each of its quantities. A program rarely
/// writes one: it sets a table from a file (`kolo::use_tuning`), or has one fitted (`kolo::fit`). Where time depends on
/// how much memory is touched, a constant has a value for each of `sizes`, the length of the whole vector, and is
/// interpolated between them over the logarithm of the length.
///
/// A row holds for one number of ranks and one pattern. A number of ranks without a row uses the nearest one. A pattern
/// without a row uses `pattern::rounds`, which must have one.
///
/// The times of the transport's own collectives (MPI's) cannot be counted from rounds; the table has them as they were
/// measured. With a table that lacks them, the transport's own collectives are never chosen.
struct tuning {
  static constexpr std::array<std::size_t, 6> sizes{1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 23, 1 << 25};
  using per_size = std::array<double, sizes.size()>;

  /// The constants for one number of ranks and one pattern.
  struct row {
    int ranks = 0;
    pattern runs_as = pattern::unknown;
    double round = 0;     ///< seconds per round
    double hop = 0;       ///< seconds per hop
    double duplex = 0;    ///< seconds per duplex round
    double message = 0;   ///< seconds per message
    per_size bytes{};     ///< seconds per byte
    per_size shared{};    ///< seconds per byte
    per_size combined{};  ///< seconds per byte
  };

  /// The times of the transport's own collectives: seconds by `kind`, then by `native_sizes`, the bytes of all parts
  /// together. They are linear between two lengths, and proportional beyond the last. A collective with a 0 is unknown.
  static constexpr std::size_t kinds = 11;
  static constexpr std::array<std::size_t, 12> native_sizes{8,       32,      128,     512,     1 << 11, 1 << 13,
                                                            1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25};
  using native_times = std::array<double, native_sizes.size()>;
  /// The times of the transport's own collectives for one number of ranks: seconds, by kind and by `native_sizes`.
  struct native_row {
    int ranks = 0;
    std::array<native_times, kinds> seconds{};
  };

  static constexpr int most_rows = 24, most_native_rows = 4;
  std::array<row, most_rows> rows{};                  ///< `ranks` of unused rows at the end is 0
  std::array<native_row, most_native_rows> native{};  ///< the same
  per_size copied{};   ///< seconds per byte that is read and written, at best; for the lower bound
  double noticed = 0;  ///< seconds until another rank sees a write, at best

  /// The predicted time for a vector of `bytes` among this number of ranks; 0 if the table is empty.
  constexpr double seconds(int ranks, pattern p, std::size_t bytes, const workload& l) const {
    const row* r = row_for(ranks, p);
    if (!r) return 0;
    const auto at = [here = position_of(bytes)](const per_size& v) { return interpolated(v, here); };
    return l.rounds * r->round + l.hops * r->hop + l.duplex_rounds * r->duplex + l.messages * r->message +
           l.bytes * at(r->bytes) + l.shared * at(r->shared) + l.combined * at(r->combined);
  }
  /// The time of the transport's own collective; 0: unknown.
  constexpr double native_seconds(int ranks, kind collective, std::size_t bytes) const {
    const native_row* const r = nearest(native, ranks, [](const native_row&) { return true; });
    if (!r) return 0;
    const auto& seconds = r->seconds[std::size_t(collective)];
    for (const double s : seconds)
      if (s <= 0) return 0;
    if (bytes >= native_sizes.back()) return seconds.back() * (double(bytes) / double(native_sizes.back()));
    std::size_t i = 0;
    while (bytes > native_sizes[i + 1]) ++i;
    const auto from = native_sizes[i], to = native_sizes[i + 1];
    const double part = bytes <= from ? 0 : double(bytes - from) / double(to - from);
    return seconds[i] + part * (seconds[i + 1] - seconds[i]);
  }
  /// The row that `seconds` uses: of this pattern, else of `pattern::rounds`; null in an empty table.
  constexpr const row* row_for(int ranks, pattern p) const {
    const auto of = [this, ranks](pattern wanted) {
      return nearest(rows, ranks, [wanted](const row& r) { return r.runs_as == wanted; });
    };
    const row* const r = of(p);
    return r ? r : of(pattern::rounds);
  }
  /// The constant for this length.
  static constexpr double at(const per_size& v, std::size_t bytes) { return interpolated(v, position_of(bytes)); }

  /// The position of a number of bytes between two of `sizes`.
  struct size_position {
    std::size_t index;  ///< below sizes.size() - 1
    double part;        ///< 0 ... 1: fraction of the way to the next
  };
  static constexpr size_position position_of(std::size_t bytes) {
    if (bytes <= sizes.front()) return {0, 0};
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
      if (bytes <= sizes[i + 1]) return {i, octaves(bytes, sizes[i]) / octaves(sizes[i + 1], sizes[i])};
    return {sizes.size() - 2, 1};
  }

 private:
  static constexpr double interpolated(const per_size& v, const size_position& p) {
    return v[p.index] + p.part * (v[p.index + 1] - v[p.index]);
  }
  template <class Rows, class Fits>
  static constexpr const typename Rows::value_type* nearest(const Rows& all, int ranks, Fits fits) {
    const typename Rows::value_type* found = nullptr;
    const auto distance = [ranks](const auto& r) {
      return r.ranks > ranks ? double(r.ranks) / ranks : double(ranks) / r.ranks;
    };
    for (const auto& r : all)
      if (r.ranks > 0 && fits(r) && (!found || distance(r) < distance(*found))) found = &r;
    return found;
  }
  /// log2(bytes / least), linear between powers of two.
  static constexpr double octaves(std::size_t bytes, std::size_t least) {
    double x = double(bytes) / double(least), whole = 0;
    for (; x > 2; x /= 2) whole += 1;
    return whole + x - 1;
  }
};

}  // namespace kolo::inline KOLO_ABI
