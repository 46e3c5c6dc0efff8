// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes a schedule for a given graph: chunks are matched with links, round by round; proven before it is returned.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/schedule/cut_bound.hpp>
#include <kolo/schedule/matching.hpp>
#include <kolo/schedule/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {

inline constexpr std::size_t most_messages = 300'000;  ///< of every schedule that is tried, except the first

/// The pairs of ranks that the graph joins; `in_rounds_of` spreads blocks over them in rounds of a given length.
template <class Graph>
class spread_over {
 public:
  spread_over(const Graph& g, std::size_t block_bytes) : graph_{g}, bytes_{double(block_bytes)} {
    const routes<Graph> all{g, block_bytes, true};
    for (int a = 0; a < g.ranks(); ++a)
      for (int b = 0; b < g.ranks(); ++b)
        if (a != b && all.exists(a, b)) pairs_.push_back({a, b, all.path(a, b)});
  }
  /// The different times of a block over a pair, in seconds: the candidate lengths of a round.
  std::vector<double> rounds() const {
    std::set<double> all;
    for (const joined_pair& p : pairs_) {
      double most = 0;
      for (const int l : p.links) most = std::max(most, seconds(l));
      all.insert(most);
    }
    return {all.begin(), all.end()};
  }
  std::optional<std::vector<scheduled_message>> in_rounds_of(double round, const spreading& what) const {
    std::vector<int> capacity;
    for (std::size_t l = 0; l < graph_.edges().size(); ++l) {
      const double one = seconds(int(l));
      capacity.push_back(one * what.blocks <= round ? what.blocks : int(round / one * (1 + 1e-9)));
    }
    return matching{what, pairs_, std::move(capacity)}.run();
  }

 private:
  double seconds(int l) const { return bytes_ * graph_.edges()[std::size_t(l)].times.seconds_per_byte; }

  const Graph& graph_;
  double bytes_;
  std::vector<joined_pair> pairs_{};
};

/// One half of a schedule: spreads blocks over the graph, or, in reverse on the transposed graph, combines them. It
/// tries several lengths of rounds and returns the fastest schedule by the graph's clock.
template <class Graph>
std::optional<synthesized> synthesize_half(kind k, const Graph& g, std::size_t bytes, int chunks, int root) {
  const bool is_rooted = k == kind::broadcast || k == kind::reduce;
  const bool combines = k == kind::reduce || k == kind::reduce_scatter;
  const int p = g.ranks(), blocks = is_rooted ? chunks : p * chunks;
  const Graph turned = combines ? g.transposed() : g;
  const spread_over<Graph> over{turned, std::max<std::size_t>(1, bytes / std::size_t(blocks))};
  std::optional<synthesized> best;
  double least = 0;
  std::vector<double> lengths = over.rounds();
  const int ways = lengths.size() > 1 ? 2 : 1;  // if all links are alike there are no clusters
  if (lengths.size() > 4) lengths.erase(lengths.begin() + 2, lengths.end() - 2);
  if (chunks == 1 && !lengths.empty()) lengths.push_back(2 * lengths.back());
  for (std::size_t n = 0; n < lengths.size() * std::size_t(ways); ++n) {
    const spreading what{p, blocks, chunks, is_rooted ? root : -1, combines, n < lengths.size()};
    auto found = over.in_rounds_of(lengths[n % lengths.size()], what);
    if (!found) continue;
    schedule_table table{k, p, blocks, 0, 0, is_rooted ? root : 0, std::move(*found)};
    for (const scheduled_message& m : table.messages) table.rounds = std::max(table.rounds, m.round + 1);
    table.reduce_rounds = table.rounds;
    for (scheduled_message& m : table.messages)
      if (combines) std::swap(m.from, m.to), m.then = arrival::mine_first, m.round = table.rounds - 1 - m.round;
    const synthesized s{std::move(table)};
    const double seconds = run(s, p, bytes, g);
    if (!best || seconds < least) least = seconds, best = s;
  }
  return best;
}

/// The schedule with this number of chunks.
std::optional<synthesized> synthesize_of_chunks(kind k, const auto& g, std::size_t bytes, int chunks, int root) {
  if (k != kind::allreduce) return synthesize_half(k, g, bytes, chunks, root);
  const auto reduced = synthesize_half(kind::reduce_scatter, g, bytes, chunks, root);
  const auto gathered = synthesize_half(kind::allgather, g, bytes, chunks, root);
  if (!reduced || !gathered) return std::nullopt;
  schedule_table all = reduced->table();
  all.collective = kind::allreduce;
  for (scheduled_message m : gathered->table().messages) m.round += all.rounds, all.messages.push_back(m);
  all.rounds += gathered->table().rounds;
  return synthesized{std::move(all)};
}

}  // namespace detail::schedule

/// Makes a schedule of this kind for the graph's ranks and this many bytes: allreduce, reduce_scatter, allgather,
/// broadcast or reduce. A pure function: the same graph gives the same schedule. `root`: of a broadcast or a reduce;
/// its calls have no other. `bytes`: of the vector; of all parts together where each rank has one.
///
/// It tries several numbers of chunks and lengths of rounds, and returns the fastest schedule by the graph's clock. A
/// rank sends to at most four others in a round, and a round begins when all messages of the one before have arrived.
/// So a schedule of the catalogue may be faster where a few wide links join many ranks, or latencies are long compared
/// with the bytes: compare them, as `examples/synthesize` does. It does not keep the order of the ranks, so operators
/// must commute.
///
/// Cost    in proportion to ranks^2 * chunks * blocks / 64 and to the tries.
/// Errors  kolo::error, invalid_argument: another kind; a single rank; a root that is no rank; ranks that cannot reach
///         one another over links and switches; a schedule that the proof rejects.
synthesized synthesize(kind k, const auto& g, std::size_t bytes, int root = 0) {
  namespace impl = detail::schedule;
  const auto refuse = [](const std::string& why) -> synthesized {
    throw error{errc::invalid_argument, "synthesize: " + why};
  };
  const int p = g.ranks();
  const bool is_rooted = k == kind::broadcast || k == kind::reduce;
  if (k != kind::allreduce && k != kind::reduce_scatter && k != kind::allgather && !is_rooted)
    return refuse("it makes an allreduce, a reduce_scatter, an allgather, a broadcast or a reduce");
  if (p < 2) return refuse("one rank has no peer");
  if (root < 0 || root >= p) return refuse("the root is no rank of the graph");
  const std::size_t parts = is_rooted ? 1 : std::size_t(p);
  std::optional<synthesized> best;
  double least = 0;
  int worse = 0;
  for (int chunks = 1; chunks <= 256; chunks *= 2) {
    const std::size_t messages = std::size_t(p) * parts * std::size_t(chunks);
    if (chunks > 1 && (messages > impl::most_messages || bytes / parts < std::size_t(chunks))) break;
    auto s = impl::synthesize_of_chunks(k, g, bytes, chunks, root);
    if (!s) break;
    const double seconds = run(*s, p, bytes, g);
    if (best && seconds > 1.02 * least && ++worse == 2) break;
    if (!best || seconds < least) least = seconds, best = std::move(s);
  }
  if (!best) return refuse("not every rank reaches every other over links and switches");
  if (const verdict v = verify(*best, p); !v) return refuse(v.message());
  return *best;
}

}  // namespace kolo::inline KOLO_ABI
