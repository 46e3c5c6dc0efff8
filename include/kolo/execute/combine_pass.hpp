// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pass over all peers' parts of a piece: it combines them, and writes the replies, if any, in the same pass.
#pragma once

#include <kolo/execute/executor.hpp>
#include <kolo/execute/layout.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Copies; past the caches if the bytes are not read again soon.
struct mover {
  bool past_cache;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    (past_cache ? core::copy_past_cache : host_executor::copy)(to, from, bytes);
  }
};

/// Where a reply goes, advanced on the way; and how, if the peer has read those lines since this rank last wrote them.
/// It has not where this rank has just read the peer's data, in a slot or in place.
struct reply {
  std::byte* to;
  core::one_way_copy* one_way;
};

/// Without replies the kernel runs once for each run of elements. With replies the result is written tile by tile, and
/// each tile goes to all peers while it is in L1.
struct combine_pass {
  const kernel& compute;
  int size;                   ///< ranks
  source* sources;            ///< in the order in which they are combined; the one without data is this rank's own
  int count;                  ///< of them
  reply* replies;             ///< one for each peer; null: no replies
  bool past_cache;            ///< no cache holds the vector
  bool has_bypassed = false;  ///< something was stored past the caches

  /// `to` = the sources and `own` combined, n elements. `check`: called before each tile is sent back; it throws if
  /// another rank has failed, since the operator may have taken long and no rank waits for replies any more.
  template <class F>
  void run(const element_position& to, const element_position& own, std::size_t n, F check) {
    const auto element_bytes = compute.element_bytes;
    int mine = 0;
    while (sources[mine].data) ++mine;
    for_each_run(to, n, [&](std::byte* result, std::size_t before, std::size_t run) {
      for_each_run({own.where, own.first + before}, run, [&](std::byte* operand, std::size_t done, std::size_t some) {
        const auto tile = replies ? std::max<std::size_t>(1, tile_bytes / element_bytes) : some;
        for (std::size_t i = 0; i < some; i += tile) {
          const auto elements = std::min(tile, some - i);
          sources[mine] = {operand + i * element_bytes, false};
          combine_tile(result + (done + i) * element_bytes, elements, check);
          for (int k = 0; k < count; ++k)
            if (k != mine) sources[k].data += elements * element_bytes;
        }
      });
    });
    if (has_bypassed) core::end_past_cache();  // before the peers are notified
  }

 private:
  static constexpr std::size_t tile_bytes = 4096;

  void combine_tile(std::byte* result, std::size_t elements, auto check) {
    const auto bytes = elements * compute.element_bytes;
    if (!replies) return host_executor::combine(compute, result, sources, count, elements, size);
    alignas(64) std::byte tile[tile_bytes];
    const mover move{past_cache && bytes <= tile_bytes};
    auto* const to = move.past_cache ? tile : result;
    host_executor::combine(compute, to, sources, count, elements, size);
    check();
    if (move.past_cache) core::copy_past_cache(result, tile, bytes);
    has_bypassed |= move.past_cache;
    for (int i = 0; i + 1 < count; ++i) {
      auto& [reply, one_way] = replies[i];
      const auto send = [&, to_reply = reply](bool past) {
        mover{past}.copy(to_reply, to, bytes);
        has_bypassed |= past;
      };
      if (move.past_cache || !one_way) send(move.past_cache && one_way);
      else one_way->choose(bytes), (*one_way)(bytes, send);
      reply += bytes;
    }
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
