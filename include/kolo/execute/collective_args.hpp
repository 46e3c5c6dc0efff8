// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective call as the executor sees it: bytes, blocks and function pointers; no element type, no algorithm's name.
#pragma once

#include <kolo/reduce/kernel.hpp>
#include <kolo/schedule/cost_model.hpp>
#include <kolo/schedule/semantics.hpp>
#include <kolo/view/memory.hpp>

#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A schedule for a known number of ranks, type-erased. Refers to the schedule, which must outlive it.
struct schedule_ref {
  const void* self = nullptr;
  step (*at)(const void* self, int rank, int size, int round) = nullptr;
  int blocks = 1, rounds = 0, scratch = 0, reduce_rounds = 0;
  int root = 0;               ///< of a schedule that is not rotated
  bool is_stateless = false;  ///< `at` and the key define it completely
  int key = 0;                ///< of a schedule defined by one number: that number
  std::uint32_t shape() const { return std::uint32_t(blocks) * 2654435761u + std::uint32_t(rounds); }
};

template <Schedule S>
int key_of(const S& s) {
  if constexpr (schedule::Keyed<S>) return s.key();
  else return 0;
}

template <Schedule S>
step step_of(const void* self, int r, int p, int k) {
  return static_cast<const S*>(self)->at(r, p, k);
}
template <Schedule S>
schedule_ref erase_schedule(const S& s, int size) {
  return {&s,
          &step_of<S>,
          s.blocks(size),
          s.rounds(size),
          schedule::scratch_blocks(s, size),
          schedule::reduce_rounds(s, size),
          schedule::root_of(s),
          std::is_empty_v<S> || schedule::Keyed<S>,
          key_of(s)};
}

/// Applied to each part of a result as soon as it is final, while it is still in the cache: `apply` gets elements of
/// `out`, each once, before the operation has finished, on the thread that makes progress. It must not start anything
/// on the communicator.
struct epilogue {
  void (*apply)(void* self, std::size_t first, std::size_t count) = nullptr;
  void* self = nullptr;
};

struct small_call_plan;  // execute/call_cache.hpp

/// The schedule of a call that uses the transport's own collective: it counts as one round.
inline constexpr schedule_ref no_schedule{.rounds = 1};

}  // namespace kolo::inline KOLO_ABI::detail::execute

namespace kolo::inline KOLO_ABI {

/// Refers to objects that the caller keeps alive until the operation has finished.
struct collective_args {
  collective_args() noexcept {}  // member by member, as an operation

  /// Its name in errors.
  const char* operation() const { return called ? called : name(collective); }

  kind collective{};
  const char* called = nullptr;  ///< its name, if several calls are of one kind; null: the kind's name
  int root = 0;                  ///< ranks and parts are rotated by it; 0 if the schedule has its own
  detail::execute::schedule_ref schedule{};
  pattern runs_as = pattern::rounds;  ///< over slots
  /// In the communicator's cache, for blocking calls only; null: none.
  const detail::execute::small_call_plan* small = nullptr;
  memory in{}, out{};  ///< may be the same
  kernel compute{};
  std::size_t count = 0;                     ///< elements: of the vector; of one part if parts are equal
  const std::size_t* send_counts = nullptr;  ///< ragged parts, one number a rank; alltoall has two lists
  const std::size_t* receive_counts = nullptr;
  void (*native)(void* transport, const collective_args&,
                 void* ticket) = nullptr;  ///< starts the transport's own collective, instead of a schedule
  bool native_finishes = false;            ///< that collective applies the operator's `finish` itself
  std::uint32_t fingerprint = 0;           ///< of what all ranks must agree on
  const detail::execute::epilogue* epilogue = nullptr;  ///< of a reduce_scatter; local to this rank
  int peer = -1;                                        ///< of a point-to-point call: the other rank
  bool is_empty = false;                                ///< likewise: a token travels in place of no elements
  std::uint64_t tag = 0;                                ///< likewise: the tag of its messages
};

}  // namespace kolo::inline KOLO_ABI
