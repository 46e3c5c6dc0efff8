// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One collective call as the executor sees it: bytes, blocks and function pointers; no element type, no algorithm's
// name.
#pragma once

#include <kolo/reduce/kernel.hpp>
#include <kolo/schedule/cost_model.hpp>
#include <kolo/schedule/semantics.hpp>
#include <kolo/view/memory.hpp>

#include <cstdint>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A schedule for a known number of ranks, without its type. Refers to the schedule, which has to outlive it.
struct schedule_ref {
  const void* self = nullptr;
  step (*at)(const void* self, int rank, int size, int round) = nullptr;
  int blocks = 1, rounds = 0, scratch = 0, reduce_rounds = 0;
  int root = 0;               ///< of a schedule that is not rotated
  bool is_stateless = false;  ///< `at` is all of it, with the key
  int key = 0;                ///< of a schedule that consists of one number: that
};

template <Schedule S>
int key_of(const S& s) {
  if constexpr (schedule::Keyed<S>) return s.key();
  else return 0;
}

template <Schedule S>
schedule_ref erase_schedule(const S& s, int size) {
  return {&s,
          [](const void* self, int r, int p, int k) { return step{static_cast<const S*>(self)->at(r, p, k)}; },
          s.blocks(size),
          s.rounds(size),
          schedule::scratch_blocks(s, size),
          schedule::reduce_rounds(s, size),
          schedule::root_of(s),
          std::is_empty_v<S> || schedule::Keyed<S>,
          key_of(s)};
}

/// What happens to each part of a result as soon as nothing is combined with it any more, while it is still in the
/// cache: `apply` gets elements of `out`, each once, before the operation has finished, on the thread that makes
/// progress. It starts nothing on the communicator.
struct epilogue {
  void (*apply)(void* self, std::size_t first, std::size_t count) = nullptr;
  void* self = nullptr;
};

struct small_call_plan;  // execute/call_cache.hpp

/// What stands for a schedule where the transport's own collective is called: it counts as one round.
inline constexpr schedule_ref no_schedule{.rounds = 1};

}  // namespace kolo::inline KOLO_ABI::detail::execute

namespace kolo::inline KOLO_ABI {

/// Everything refers to things that the caller keeps alive until the operation has finished.
struct collective_args {
  collective_args() noexcept {}  // member by member, as an operation

  /// What errors call it.
  const char* operation() const { return called ? called : name(collective); }

  kind collective{};
  const char* called = nullptr;  ///< where several calls are of one kind; null: as its kind
  int root = 0;                  ///< ranks and parts are rotated by it; 0 where the schedule has its own
  detail::execute::schedule_ref schedule{};
  pattern runs_as = pattern::rounds;  ///< over slots
  const detail::execute::small_call_plan* small =
      nullptr;         ///< in the communicator's cache, so for the blocking call alone; null: none
  memory in{}, out{};  ///< may be the same
  kernel compute{};
  std::size_t count = 0;                     ///< elements: of the vector; of one part where parts are equal
  const std::size_t* send_counts = nullptr;  ///< ragged parts, one number a rank; alltoall has two lists
  const std::size_t* receive_counts = nullptr;
  void (*native)(void* transport, const collective_args&,
                 void* ticket) = nullptr;           ///< starts the transport's own collective, instead of a schedule
  bool native_finishes = false;                     ///< that collective does what the operator does at the end
  std::uint32_t fingerprint = 0;                    ///< of what all ranks must agree upon
  const detail::execute::epilogue* then = nullptr;  ///< of a reduce_scatter; this rank's own affair
  int peer = -1;                                    ///< of what is between two ranks: the other one
  bool is_empty = false;                            ///< likewise: a token travels, in place of no elements
  std::uint64_t tag = 0;                            ///< likewise: what its messages say that they belong to
};

}  // namespace kolo::inline KOLO_ABI
