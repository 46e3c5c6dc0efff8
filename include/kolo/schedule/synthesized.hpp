// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule stored as a list of messages, for one number of ranks: what kolo::synthesize returns.
#pragma once

#include <kolo/schedule/family.hpp>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// In one round, blocks first ... first + count - 1 go from one rank to another.
struct scheduled_message {
  int round, from, to, first, count;
  arrival then = arrival::replace;
  friend bool operator==(const scheduled_message&, const scheduled_message&) = default;
};

/// All messages of a schedule, for one number of ranks; `root`: of a broadcast or a reduce. A rank sends its messages
/// of a round, and applies those that it receives, in the order of the list. Operands are combined in rounds before
/// `reduce_rounds` only.
struct schedule_table {
  kind collective{};
  int ranks = 0, blocks = 0, rounds = 0, reduce_rounds = 0, root = 0;
  std::vector<scheduled_message> messages{};
  friend bool operator==(const schedule_table&, const schedule_table&) = default;
};

namespace detail::schedule {

/// The steps of a table: the transfers of rank r in round k are first[k * ranks + r] ... up to the first of the next.
class table_steps {
 public:
  explicit table_steps(schedule_table t) : table{std::move(t)} {
    const auto between = [](int low, int x, int high) { return low <= x && x < high; };
    if (table.ranks < 2 || table.blocks < 1 || table.rounds < 0) wrong("no ranks, blocks or rounds");
    std::vector<std::vector<transfer>> all(at(table.rounds) * at(table.ranks));
    for (const scheduled_message& m : table.messages) {
      if (!between(0, m.round, table.rounds) || !between(0, m.from, table.ranks) || !between(0, m.to, table.ranks) ||
          m.from == m.to || m.count < 1 || !between(0, m.first, table.blocks) || m.count > table.blocks - m.first)
        wrong("a message of a round, rank or block that is not there");
      const block_range blocks{m.first, m.count};
      transfer& out = transfer_for(all[at(m.round) * at(table.ranks) + at(m.from)], true);
      out.to = m.to, out.send = blocks;
      transfer& in = transfer_for(all[at(m.round) * at(table.ranks) + at(m.to)], false);
      in.from = m.from, in.receive = blocks, in.then = m.then;
    }
    for (const auto& now : all) {
      if (now.size() > step::capacity) wrong("more than four messages to or from a rank in one round");
      first_.push_back(transfers_.size());
      transfers_.insert(transfers_.end(), now.begin(), now.end());
    }
    first_.push_back(transfers_.size());
  }

  step of(int rank, int round) const {
    step now;
    const std::size_t i = at(round) * at(table.ranks) + at(rank);
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) now += transfers_[k];
    return now;
  }

  const schedule_table table;

 private:
  static std::size_t at(int i) { return std::size_t(i); }
  [[noreturn]] static void wrong(const char* what) {
    throw std::invalid_argument(std::string{"kolo: a table of a schedule has "} + what);
  }
  /// The first transfer that does not send, or receive, yet: one transfer may do both.
  static transfer& transfer_for(std::vector<transfer>& now, bool sends) {
    for (transfer& t : now)
      if ((sends ? t.to : t.from).count == 0) return t;
    return now.emplace_back();
  }

  std::vector<std::size_t> first_{};
  std::vector<transfer> transfers_{};
};

}  // namespace detail::schedule

/// A schedule of one kind, known at run time, for one number of ranks; it supports no other number. Copies share the
/// table. It can be passed wherever a family can: `allreduce(comm, x, sum, mine)`, `verify(mine, p)`, `draw(mine, p)`.
///
/// Errors  std::invalid_argument: a table with a message of a rank, a round or a block that it does not have.
class synthesized {
 public:
  /// The schedule with its kind as a type; supports its table's ranks and root only.
  template <kind K>
  struct of_kind {
    static constexpr auto collective = K;
    explicit of_kind(const synthesized& s) : steps{s.steps_}, root{s.table().root} {}

    bool supports(int p) const {
      return steps->table.collective == K && p == steps->table.ranks && root == only_root();
    }
    int only_root() const { return steps->table.root; }
    int blocks(int) const { return steps->table.blocks; }
    int rounds(int) const { return steps->table.rounds; }
    int reduce_rounds(int) const { return steps->table.reduce_rounds; }
    step at(int r, int, int k) const { return steps->of(r, k); }

    std::shared_ptr<const detail::schedule::table_steps> steps;
    int root;
  };
  using allreduce = of_kind<kind::allreduce>;
  using reduce_scatter = of_kind<kind::reduce_scatter>;
  using allgather = of_kind<kind::allgather>;
  using broadcast = of_kind<kind::broadcast>;
  using reduce = of_kind<kind::reduce>;

  explicit synthesized(schedule_table t)
      : steps_{std::make_shared<const detail::schedule::table_steps>(std::move(t))} {}

  const schedule_table& table() const { return steps_->table; }
  /// Returns f(schedule), with the kind as a type.
  auto with_schedule(auto f) const {
    switch (table().collective) {
      case kind::allreduce: return f(allreduce{*this});
      case kind::reduce_scatter: return f(reduce_scatter{*this});
      case kind::allgather: return f(allgather{*this});
      case kind::broadcast: return f(broadcast{*this});
      case kind::reduce: return f(reduce{*this});
      default: throw std::invalid_argument("kolo::synthesized: a table of a kind that has none");
    }
  }

 private:
  std::shared_ptr<const detail::schedule::table_steps> steps_;
};

}  // namespace kolo::inline KOLO_ABI
