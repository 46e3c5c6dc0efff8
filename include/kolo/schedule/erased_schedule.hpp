// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule without its type, so that code that only reads schedules, the proof and the clock, is compiled once.
#pragma once

#include <kolo/schedule/schedule.hpp>

#include <new>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// A schedule for one number of ranks.
struct erased_schedule {
  kind collective{};
  bool ordered = false, relative = false;
  int size = 0, blocks = 0, rounds = 0, scratch = 0, reduce_rounds = 0, root = 0;
  constexpr virtual step at(int rank, int round) const = 0;
  /// For a permutation: whose blocks the rank ends with; `nobody` if the schedule does not declare it.
  constexpr virtual int source(int rank) const = 0;
  /// Makes the steps of ranks first ... first + count - 1 in place, in one virtual call.
  virtual void list(int round, int first, int count, step* to) const = 0;

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
  void list(int round, int first, int count, step* to) const override {
    for (int i = 0; i < count; ++i) ::new (static_cast<void*>(to + i)) step(typed_.at(first + i, size, round));
  }

 private:
  const S& typed_;
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule
