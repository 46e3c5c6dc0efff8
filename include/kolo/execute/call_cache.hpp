// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call runs, and where that is cached: one cache per communicator, searched once per call.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/execute/collective_args.hpp>
#include <kolo/schedule/cost_model.hpp>
#include <kolo/transport/flight_recorder.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kolo::inline KOLO_ABI::detail::select {
struct node_choice;  // select/on_nodes.hpp
}  // namespace kolo::inline KOLO_ABI::detail::select

namespace kolo::inline KOLO_ABI::detail::execute {

/// What depends only on the collective, its algorithm and the sizes of a call, and not on where its views lie.
struct resolved_call {
  schedule_ref schedule{};            ///< of the selected algorithm
  pattern runs_as = pattern::rounds;  ///< over slots
  bool is_native = false;             ///< the transport's own collective was selected, and no schedule
};

/// How a small blocking call runs: one round of at most one small piece per peer, contiguous everywhere. Offsets and
/// lengths are in bytes. It depends only on the numbers of a call, so calls with equal numbers share it.
struct small_call_plan {
  static constexpr int most_peers = 63;
  struct peer_stream {
    int peer;
    bool is_exchange;
    bool is_mutual;  ///< the peer sends this rank a piece, too
    std::uint32_t offset, bytes;
  };
  struct copy {
    std::size_t from, to, bytes, elements;
  };

  /// Which protocol its pieces use.
  enum class protocol : std::uint8_t {
    mixed,      ///< `is_exchange` of each piece decides
    exchanges,  ///< all are exchanges: nothing is acknowledged
    board
  };

  transport::operation_summary summary;

  bool is_usable, combines;
  protocol uses;
  bool may_refer;                           ///< a piece without one in return is long enough to be sent by reference
  std::uint8_t sends, receives, own_index;  ///< own_index: of this rank's operand among the sources
  copy own;                                 ///< copied within the rank; or, if it combines, operand, result and length
  core::dynarray<peer_stream> all;          ///< first those that it sends
  peer_stream *out, *in;                    ///< in: if it combines, in the order of combination
};

/// Two tables. The one for small calls has all numbers of a call as its key, so an entry holds the plan as well. The
/// other one has a class of lengths as its key, since all lengths of a class have the same answer. Each table is
/// allocated when it is first written to. Both are preceded by a cache of the few most recent small calls without a
/// named algorithm. Not thread-safe.
class call_cache {
 public:
  struct small_key {
    std::uint64_t what = 0;  ///< collective and algorithm, or what the choice depends on beside the sizes; never 0
    std::size_t count = 0, element_bytes = 0;
    int root = 0, parameter = 0;  ///< parameter: `schedule_ref::key`
    bool operator==(const small_key&) const = default;
  };
  struct small_call {
    small_key key{};
    resolved_call how{};
    small_call_plan plan{};
  };
  struct call {
    std::uint64_t key = 0;  ///< 0: free
    resolved_call how{};
  };
  /// The full result of `prepare_call`.
  struct recent_call {
    const void* traits = nullptr;   ///< address of the call's `call_traits`; null: none
    std::uint32_t types = 0;        ///< the `types` there: traits of untyped calls lie on the stack
    std::size_t element_bytes = 0;  ///< of untyped elements
    kind collective{};
    int root = 0;
    std::size_t elements = 0;  ///< that all ranks must agree on; with equal parts also the count
    std::uint32_t fingerprint = 0;
    const small_call_plan* small = nullptr;
    pattern runs_as = pattern::rounds;
    schedule_ref schedule{};

    bool is_of(const auto& t, std::size_t bytes, std::size_t agreed, int rank) const {
      return traits == &t && types == t.types && element_bytes == bytes && collective == t.how.collective &&
             elements == agreed && root == rank;
    }
  };
  static constexpr std::size_t small_calls = 32, calls = 64;
  /// Measured with programs that alternate between up to 8 kinds of small calls, on two ranks: 8 entries found all
  /// calls; 4 entries found all of up to four kinds, a third of six kinds, none of eight.
  static constexpr std::size_t recent_calls = 8;

  recent_call& recent(const void* traits) {
    return recent_[reinterpret_cast<std::uintptr_t>(traits) / 64 % recent_calls];
  }

  void forget_recent() {
    for (auto& r : recent_) r = {};
  }

  /// The one of two entries that holds the answer to `key`; else the first, to be filled, whose old answer moves to the
  /// second.
  small_call& small(const small_key& key) {
    if (!small_.begin()) [[unlikely]]
      small_ = core::dynarray<small_call>(small_calls);
    const auto numbers = key.count + 1021 * key.element_bytes + std::size_t(key.root + key.parameter);
    auto& first = small_[hash(key.what + 31 * numbers, small_calls)];
    if (first.key == key) [[likely]]
      return first;
    return small_beside(first, key);
  }

  /// Null if the first entry for `key` does not hold its answer.
  const resolved_call* find(std::uint64_t key) const {
    if (!calls_.begin()) [[unlikely]]
      return nullptr;
    const auto& here = calls_[index_of(key)];
    return here.key == key ? &here.how : nullptr;
  }
  /// The entry that holds the answer to `key`, or where to put it: its first entry, else the next free one; if none is
  /// free, its first entry.
  [[gnu::cold, gnu::noinline]] call& entry_for(std::uint64_t key) {
    if (!calls_.begin()) calls_ = core::dynarray<call>(calls);
    for (std::size_t i = 0; i < calls; ++i)
      if (auto& here = calls_[(index_of(key) + i) % calls]; here.key == key || here.key == 0) return here;
    return calls_[index_of(key)];
  }
  static constexpr std::size_t index_of(std::uint64_t key) { return hash(key, calls); }

  /// The candidates for ranks on several nodes: answers refer to their schedules, so they are moved together.
  mutable std::shared_ptr<const select::node_choice> by_nodes{};
  std::shared_ptr<const select::node_choice> fitted_nodes{};  ///< those that a fit measured

 private:
  [[gnu::noinline]] small_call& small_beside(small_call& first, const small_key& key) {
    auto& second = small_[std::size_t(&first - small_.begin()) ^ 1];
    if (second.key == key) return second;
    if (first.key.what == 0) return first;
    forget_recent();
    std::swap(second, first);
    first.key = {};
    return first;
  }
  /// The index of one of `entries`, a power of two: taken from bits that depend on most of the key.
  static constexpr std::size_t hash(std::uint64_t key, std::size_t entries) {
    return (key * 0x9e3779b97f4a7c15u) >> 32 & (entries - 1);
  }

  recent_call recent_[recent_calls]{};
  core::dynarray<small_call> small_{};
  core::dynarray<call> calls_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
