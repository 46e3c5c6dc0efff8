// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One collective call as the executor sees it: bytes, blocks and function pointers; no element type, no algorithm's name.
#pragma once

#include <kolo/reduce/kernel.hpp>
#include <kolo/schedule/promise.hpp>
#include <kolo/view/memory.hpp>

#include <cstdint>

namespace kolo::inline v0::detail {

/// A schedule for a known number of ranks, without its type. Refers to the schedule, which has to outlive it.
struct schedule_ref {
  const void* self = nullptr;
  step (*at)(const void* self, int rank, int size, int round) = nullptr;
  int blocks = 1, rounds = 0, scratch = 0, reduce_rounds = 0;
  int root = 0;  ///< of a schedule that is not rotated
  bool is_stateless = false;  ///< `at` is all of it
};

template <Schedule S>
schedule_ref erase_schedule(const S& s, int size) {
  return {&s, [](const void* self, int r, int p, int k) { return step{static_cast<const S*>(self)->at(r, p, k)}; },
          s.blocks(size), s.rounds(size), scratch_blocks(s, size), reduce_rounds(s, size), root_of(s), std::is_empty_v<S>};
}

/// What happens to each part of a result as soon as nothing is combined with it any more, while it is still in the cache: `apply` gets elements of `out`, each once,
/// before the operation has finished, on the thread that makes progress. It starts nothing on the communicator.
struct epilogue {
  void (*apply)(void* self, std::size_t first, std::size_t count) = nullptr;
  void* self = nullptr;
};

/// Everything refers to things that the caller keeps alive until the operation has finished.
struct problem {
  kind collective{};
  int root = 0;                                   ///< ranks and parts are rotated by it; 0 where the schedule has its own
  schedule_ref schedule{};
  memory in{}, out{};                             ///< may be the same
  kernel compute{};
  std::size_t count = 0;                          ///< elements: of the vector; of one part where parts are equal
  const std::size_t* send_counts = nullptr;       ///< ragged parts, one number a rank; alltoall has two lists
  const std::size_t* receive_counts = nullptr;
  void (*native)(void* transport, const problem&, void* ticket) = nullptr;  ///< starts the transport's own collective, instead of a schedule
  std::uint32_t fingerprint = 0;                  ///< of what all ranks must agree upon
  const epilogue* then = nullptr;                 ///< of a reduce_scatter; this rank's own affair
};

/// Names a type in the same way in every process that was built by the same compiler.
template <class T>
constexpr std::uint32_t type_hash() {
  std::uint32_t h = 2166136261u;
  for (const char* c = __PRETTY_FUNCTION__; *c; ++c) h = (h ^ static_cast<unsigned char>(*c)) * 16777619u;
  return h;
}

/// The fingerprint's lowest byte is the kind, so that a disagreement about it can be put in words.
constexpr std::uint32_t fingerprint(kind k, std::uint32_t types, std::uint64_t count, int root) {
  std::uint64_t h = (types ^ (count * 0x9e3779b97f4a7c15u) ^ (static_cast<std::uint64_t>(root) << 40)) * 0xff51afd7ed558ccdu;
  h ^= h >> 32;
  return (static_cast<std::uint32_t>(h) & ~0xffu) | static_cast<std::uint32_t>(k);
}

}  // namespace kolo::inline v0::detail
