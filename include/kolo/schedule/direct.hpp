// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The direct algorithms: every rank exchanges messages with all others, once or twice.
#pragma once

#include <kolo/schedule/combinators.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the collective's precondition (`schedule/semantics.hpp`); allreduce, reduce, broadcast and barrier: one
///         block; the others: p blocks.
/// After   the collective's postcondition.
/// Cost    1 round of p-1 messages; (p-1) n bytes where there is one block, (p-1)/p n where there are p.
/// Order   the order of the ranks.
/// Errors  none of its own.
/// Source  folklore; the least latency where a rank reaches all peers at once (shared memory, NVSwitch). Other
///         libraries call the gather and scatter linear, the alltoall direct, and the barrier flat.
struct one_shot {
  /// Every rank sends its vector to all others, and combines all vectors in the order of the ranks.
  struct allreduce {
    static constexpr auto collective = kind::allreduce;
    static constexpr bool relative = true;
    static constexpr bool ordered = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int) { return 1; }
    static constexpr step at(int r, int p, int) {
      const peer_range others{mod(r + 1, p), p - 1};
      return transfer{.to = others, .send = {0, 1}, .from = others, .receive = {0, 1}, .then = arrival::in_rank_order};
    }
  };

  /// Every rank sends block s to rank s, which combines all contributions in the order of the ranks.
  struct reduce_scatter {
    static constexpr auto collective = kind::reduce_scatter;
    static constexpr bool relative = true;
    static constexpr bool ordered = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int) { return 1; }
    static constexpr step at(int r, int p, int) {
      const peer_range others{mod(r + 1, p), p - 1};
      return transfer{.to = others,
                      .send = {.first = others.first, .count = 1, .per_peer = 1},
                      .from = others,
                      .receive = {r, 1},
                      .then = arrival::in_rank_order};
    }
  };
  using allgather = reverse<reduce_scatter>;

  /// All ranks send to rank 0, which combines in the order of the ranks.
  struct reduce {
    static constexpr auto collective = kind::reduce;
    static constexpr bool ordered = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int) { return 1; }
    static constexpr step at(int r, int p, int) {
      if (r > 0) return transfer{.to = 0, .send = {0, 1}};
      return transfer{.from = {1, p - 1}, .receive = {0, 1}, .then = arrival::in_rank_order};
    }
  };
  using broadcast = reverse<reduce>;

  /// All ranks send their blocks to rank 0.
  struct gather {
    static constexpr auto collective = kind::gather;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int) { return 1; }
    static constexpr step at(int r, int p, int) {
      if (r > 0) return transfer{.to = 0, .send = {r, 1}};
      return transfer{.from = {1, p - 1}, .receive = {.first = 1, .count = 1, .per_peer = 1}};
    }
  };
  using scatter = reverse<gather>;

  /// Every rank sends block s to rank s; what arrives from rank s becomes block s of set 1.
  struct alltoall {
    static constexpr auto collective = kind::alltoall;
    static constexpr bool relative = true;
    static constexpr int blocks(int p) { return p; }
    static constexpr int rounds(int) { return 1; }
    static constexpr step at(int r, int p, int) {
      const peer_range others{mod(r + 1, p), p - 1};
      const int set_1 = p;
      step now;
      now += {.to = r, .send = {r, 1}, .from = r, .receive = {set_1 + r, 1}};
      now += {.to = others,
              .send = {.first = others.first, .count = 1, .per_peer = 1},
              .from = others,
              .receive = {.first = set_1 + others.first, .count = 1, .per_peer = 1}};
      return now;
    }
  };

  /// Every rank sends an empty message to all others.
  struct barrier {
    static constexpr auto collective = kind::barrier;
    static constexpr bool relative = true;
    static constexpr int blocks(int) { return 1; }
    static constexpr int rounds(int) { return 1; }
    static constexpr step at(int r, int p, int) {
      const peer_range others{mod(r + 1, p), p - 1};
      return transfer{.to = others, .send = {0, 1}, .from = others, .receive = {0, 1}};
    }
  };
};

/// Before  the collective's precondition (`schedule/semantics.hpp`); p blocks.
/// After   the collective's postcondition.
/// Cost    2 rounds of p-1 messages, 2(p-1)/p n bytes in all; reduce_scatter and allgather: half of that.
/// Order   the order of the ranks.
/// Errors  none of its own.
/// Source  folklore; the fastest for long vectors over shared memory and NVSwitch.
struct two_shot {
  using reduce_scatter = one_shot::reduce_scatter;
  using allgather = one_shot::allgather;
  using allreduce = sequence<reduce_scatter, allgather>;
  using reduce = sequence<reduce_scatter, one_shot::gather>;
  using broadcast = sequence<one_shot::scatter, allgather>;
};

}  // namespace kolo::inline KOLO_ABI
