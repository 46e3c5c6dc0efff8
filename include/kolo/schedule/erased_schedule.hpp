// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule without its type, so that code that only reads schedules, the proof and the clock, is compiled once.
#pragma once

#include <kolo/schedule/schedule.hpp>

#include <cstddef>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// The transfers of all ranks in one round: those of rank r begin at first[r].
struct transfers_of_round {
  std::vector<transfer> all{};
  std::vector<std::size_t> first{};
};

/// A schedule for one number of ranks.
struct erased_schedule {
  kind collective{};
  bool ordered = false, relative = false;
  int size = 0, blocks = 0, rounds = 0, scratch = 0, reduce_rounds = 0, root = 0;
  constexpr virtual step at(int rank, int round) const = 0;
  /// For a permutation: whose blocks the rank ends with; `nobody` if the schedule does not declare it.
  constexpr virtual int source(int rank) const = 0;
  /// Lists the steps of ranks 0 ... ranks - 1 in one virtual call.
  virtual void list(int round, int ranks, transfers_of_round& to) const = 0;

 protected:
  constexpr ~erased_schedule() = default;
};

/// Refers to the schedule, which must outlive it.
template <Schedule S>
class erased final : public erased_schedule {
 public:
  constexpr erased(const S& s, int p) : typed_{s} {
    collective = S::collective;
    ordered = is_ordered<S>();
    relative = is_relative<S>();
    size = p;
    blocks = s.blocks(p);
    rounds = s.rounds(p);
    scratch = scratch_blocks(s, p);
    reduce_rounds = kolo::detail::schedule::reduce_rounds(s, p);
    root = root_of(s);
  }
  constexpr step at(int rank, int round) const override { return typed_.at(rank, size, round); }
  constexpr int source([[maybe_unused]] int rank) const override {
    if constexpr (requires { typed_.source(rank, size); }) return typed_.source(rank, size);
    else return nobody;
  }
  void list(int round, int ranks, transfers_of_round& to) const override {
    to.all.clear();
    to.first.clear();
    for (int r = 0; r < ranks; ++r) {
      to.first.push_back(to.all.size());
      for (const transfer& t : step{typed_.at(r, size, round)}) to.all.push_back(t);
    }
    to.first.push_back(to.all.size());
  }

 private:
  const S& typed_;
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule
