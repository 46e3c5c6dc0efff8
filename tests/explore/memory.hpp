// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An abstract memory with the memory orders of C++: every atomic object is a list of messages, every rank has a view of them.
#pragma once

#include "explore/explorer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace explore {

inline constexpr std::size_t most_places = 128;

/// The position of a message among those of its place. There is room in between: a later store may come before an earlier one.
using stamp = std::int32_t;
inline constexpr stamp apart = 1 << 16;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 29;
}

enum class order { relaxed, consume, acquire, release, acquire_release, sequential };  // in the numbering of compilers
inline bool acquires(order o) { return o != order::relaxed && o != order::release; }
inline bool releases(order o) { return o >= order::release; }

/// What a rank, or a message, knows: messages of a place before `seen` can no longer be read; of each rank, everything up to `clock` happened before.
struct view {
  std::array<stamp, most_places> seen{};
  std::array<std::uint32_t, most_ranks> clock{};

  void join_seen(const view& o, std::size_t places) {
    for (std::size_t p = 0; p < places; ++p) seen[p] = std::max(seen[p], o.seen[p]);
  }
  void join(const view& o, std::size_t places) {
    join_seen(o, places);
    for (std::size_t r = 0; r < most_ranks; ++r) clock[r] = std::max(clock[r], o.clock[r]);
  }
};

struct message {
  stamp at;
  std::uint64_t value;
  std::uint32_t id;  ///< the rank and step that wrote it; 0: the initial value
  bool taken;        ///< a read-modify-write has read it: no other message can follow it directly
  view known;        ///< what an acquire of it adds
};

/// An atomic object.
struct place {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::vector<message> messages;                            ///< in the order of modification
  std::array<std::uint32_t, most_ranks> read{}, written{};  ///< each rank's clock at its last access
  stamp woken = 0;                                          ///< for a sleeper: what the last rank to wake has seen

  std::size_t first(stamp from) const {
    std::size_t i = 0;
    while (messages[i].at < from) ++i;
    return i;
  }
  std::uint64_t hash(std::size_t added_after = ~std::size_t{0}, std::uint32_t added = 0) const {
    std::uint64_t h = mix(address, woken == 0 ? 0 : messages[first(woken)].id);
    if (messages.size() == 1 && added == 0 && woken == 0) return 0;  // as if never touched
    for (std::size_t i = 0; i < messages.size(); ++i) {
      h = mix(h, messages[i].id);
      if (i == added_after) h = mix(h, added);
    }
    return h;
  }
};

/// What a rank knows, and what its fences will add.
struct views {
  view now{};         ///< what applies to its accesses
  view acquirable{};  ///< what an acquire fence adds: from messages that were read relaxed
  view released{};    ///< what a relaxed store passes on: the knowledge at the last release fence
};

/// The operational form of release-acquire with relaxed accesses and fences (RC11 without reads from the future). Sequentially consistent fences are exact;
/// sequentially consistent accesses count as acquire and release, which allows more than C++ does. Non-atomic data is in real memory: if no access races, there
/// is one value to read.
class memory {
 public:
  std::size_t places() const { return used_; }
  place& at(std::size_t p) { return places_[p]; }
  void forget() { used_ = 0, fenced_ = {}; }

  /// The place at this address; a new one has the value in memory.
  std::size_t add(std::uintptr_t address, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(address), bytes);
    if (used_ == most_places) std::fputs("explore: too many places\n", stderr), std::_Exit(3);
    auto& p = places_[used_];
    p.address = address, p.bytes = bytes, p.woken = 0;
    p.read = p.written = {};
    p.messages.clear();
    p.messages.push_back({0, value, 0, false, {}});
    return used_++;
  }

  std::uint64_t read(views& v, std::size_t p, std::size_t i, order o) {
    auto& m = places_[p].messages[i];
    v.now.seen[p] = std::max(v.now.seen[p], m.at);
    (acquires(o) ? v.now : v.acquirable).join(m.known, used_);
    return m.value;
  }

  /// Writes after message i of p; the clock of `rank` advances.
  void write(views& v, std::size_t rank, std::size_t p, std::size_t i, std::uint64_t value, order o, std::uint32_t id,
             const view* passed_on = nullptr) {
    auto& all = places_[p].messages;
    const stamp at = i + 1 == all.size() ? all[i].at + apart : all[i].at + (all[i + 1].at - all[i].at) / 2;
    if (at == all[i].at) std::fputs("explore: too many stores before others\n", stderr), std::_Exit(3);
    v.now.seen[p] = at;
    message m{at, value, id, false, releases(o) ? v.now : v.released};
    m.known.seen[p] = at;
    if (passed_on) m.known.join(*passed_on, used_);
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, m);
    if (releases(o)) ++v.now.clock[rank];
    std::memcpy(reinterpret_cast<void*>(places_[p].address), &all.back().value, places_[p].bytes);
  }

  void fence(views& v, std::size_t rank, order o) {
    if (acquires(o)) v.now.join(v.acquirable, used_);
    if (o == order::sequential) {
      v.now.join_seen(fenced_, used_);
      fenced_.seen = v.now.seen;
    }
    if (releases(o)) v.released = v.now, ++v.now.clock[rank];
  }

  /// A hash of what the fences have seen: as it is, or as it would be after one of a rank with these views.
  std::uint64_t fenced_hash(const views* next = nullptr) const {
    std::uint64_t sum = 0;
    for (std::size_t p = 0; p < used_; ++p) {
      stamp s = fenced_.seen[p];
      if (next) s = std::max({s, next->now.seen[p], next->acquirable.seen[p]});
      if (s > 0) sum += mix(places_[p].address, places_[p].messages[places_[p].first(s)].id);
    }
    return sum;
  }

 private:
  std::array<place, most_places> places_{};
  std::size_t used_ = 0;
  view fenced_{};
};

}  // namespace explore
