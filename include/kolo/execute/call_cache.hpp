// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call runs, and where that is remembered: one cache for each communicator, which a call looks at once.
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

/// What follows from the collective, its algorithm and the sizes of a call, and not from where its views lie.
struct resolved_call {
  schedule_ref schedule{};            ///< of the algorithm that was chosen
  pattern runs_as = pattern::rounds;  ///< over slots
  bool is_native = false;             ///< the transport's own collective was chosen, and no schedule
};

/// How a small blocking call runs: one round of at most one small piece for each peer, contiguous everywhere. Offsets
/// and lengths are in bytes. It follows from the numbers of a call alone, so that calls that look alike share it.
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

  /// Where its pieces go.
  enum class way : std::uint8_t {
    mixed,      ///< each says so (`is_exchange`)
    exchanges,  ///< what nothing is acknowledged of
    board
  };

  transport::operation_summary summary;

  bool is_usable, combines;
  way goes;
  bool may_refer;  ///< a piece that goes one way is long enough to be referred to, where it lies in such memory
  std::uint8_t sends, receives, own_index;  ///< own_index: of this rank's operand among the sources
  copy own;                         ///< what stays here; or, where it combines, operand, result and their length
  core::dynarray<peer_stream> all;  ///< first those that it sends
  peer_stream *out, *in;            ///< in: where it combines, in the order of combination
};

/// Two tables. Of small calls: by all numbers of the call, so that what is found there is the plan as well. Of the
/// others: by a class of lengths, since all lengths of a class have the same answer. Each is made when it is first
/// written to. And before both the few small calls without a named algorithm that were made last. Not thread-safe.
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
  /// All that `prepare_call` finds out.
  struct recent_call {
    const void* traits = nullptr;   ///< where its types are described; null: none
    std::uint32_t types = 0;        ///< what stands there: of elements known at run time only, that is the stack
    std::size_t element_bytes = 0;  ///< of those
    kind collective{};
    int root = 0;
    std::size_t elements = 0;  ///< that all ranks agree upon: of parts that are alike they are the count as well
    std::uint32_t fingerprint = 0;
    const small_call_plan* small = nullptr;
    pattern runs_as = pattern::rounds;
    schedule_ref schedule{};

    template <class Traits>
    bool is_of(const Traits& t, std::size_t bytes, std::size_t agreed, int rank) const {
      return traits == &t && types == t.types && element_bytes == bytes && collective == t.how.collective &&
             elements == agreed && root == rank;
    }
  };
  static constexpr std::size_t small_calls = 32, calls = 64;
  /// Measured with programs that make up to 8 kinds of small calls by turns, on two ranks: with 8 entries all calls
  /// were found there; with 4 those of up to four kinds, of six kinds a third, of eight none.
  static constexpr std::size_t recent_calls = 8;

  recent_call& recent(const void* traits) {
    return recent_[reinterpret_cast<std::uintptr_t>(traits) / 64 % recent_calls];
  }

  void forget_recent() {
    for (auto& r : recent_) r = {};
  }

  /// The first of the two entries where the answer to `key` may stand.
  small_call& small(const small_key& key) {
    if (!small_.begin()) [[unlikely]]
      small_ = core::dynarray<small_call>(small_calls);
    const auto numbers = key.count + 1021 * key.element_bytes + static_cast<std::size_t>(key.root + key.parameter);
    return small_[hash(key.what + 31 * numbers, small_calls)];
  }
  /// Where the answer to `key` stands, which is not in `first`; or will stand: an answer in `first` goes to the second
  /// entry, and what was there has to go.
  [[gnu::noinline]] small_call& small_beside(small_call& first, const small_key& key) {
    auto& second = small_[static_cast<std::size_t>(&first - small_.begin()) ^ 1];
    if (second.key == key) return second;
    if (first.key.what == 0) return first;
    forget_recent();
    std::swap(second, first);
    first.key = {};
    return first;
  }

  /// Null where the answer to `key` is not in its first entry.
  const resolved_call* find(std::uint64_t key) const {
    if (!calls_.begin()) [[unlikely]]
      return nullptr;
    const auto& here = calls_[index_of(key)];
    return here.key == key ? &here.how : nullptr;
  }
  /// Where the answer to `key` stands, or will stand: in its first entry, else in the next that is free, else in its
  /// first entry after all.
  [[gnu::cold, gnu::noinline]] call& entry_for(std::uint64_t key) {
    if (!calls_.begin()) calls_ = core::dynarray<call>(calls);
    for (std::size_t i = 0; i < calls; ++i)
      if (auto& here = calls_[(index_of(key) + i) % calls]; here.key == key || here.key == 0) return here;
    return calls_[index_of(key)];
  }
  static constexpr std::size_t index_of(std::uint64_t key) { return hash(key, calls); }

  /// The candidates where ranks live on nodes: answers refer to their schedules, so they go where the answers go.
  mutable std::shared_ptr<const select::node_choice> by_nodes{};

 private:
  /// The index of one of `entries`, a power of two: bits on which most of the key has had an effect.
  static constexpr std::size_t hash(std::uint64_t key, std::size_t entries) {
    return (key * 0x9e3779b97f4a7c15u) >> 32 & (entries - 1);
  }

  recent_call recent_[recent_calls]{};
  core::dynarray<small_call> small_{};
  core::dynarray<call> calls_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
