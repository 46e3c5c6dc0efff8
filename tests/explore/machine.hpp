// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks over the abstract memory: which steps each may take next, what a step does, and which accesses race.
#pragma once

#include "explore/explorer.hpp"
#include "explore/memory.hpp"

#include <memory>
#include <string>
#include <utility>

namespace explore {

enum class act : std::uint8_t { load, store, add, exchange, compare, fence, fence_all, sleep, wake, pause };
inline constexpr const char* names[] = {"loads", "stores",           "adds",          "exchanges",      "compares",
                                        "fence", "fences all ranks", "goes to sleep", "wakes sleepers", "looks again"};

/// The next operation of a rank.
struct request {
  act what = act::fence;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  order how = order::relaxed, otherwise = order::relaxed;  ///< otherwise: of a comparison that fails
  std::uint64_t operand = 0, expected = 0;
};

struct transition {
  int rank;
  std::size_t pick;  ///< the message that it reads, or is placed after; of a pause: the address with a new value
  std::uint64_t leads_to;
};

class machine {
 public:
  enum class status : std::uint8_t { ready, asleep, woken, ended };
  struct rank_state {
    explore::views views{};
    request next{};
    status is = status::ready;
    std::uint64_t history = 0;  ///< a hash of what it has read, which determines what it does next
    std::uint32_t steps = 0;
    std::size_t asleep_at = 0;
    struct look {
      std::size_t place;
      stamp at;
      std::uint64_t value;
    };
    std::vector<look> polls{};  ///< since its last pause
  };

  void reset(int ranks) {
    ++run_;
    memory_.forget();
    ranks_.assign(static_cast<std::size_t>(ranks), {});
    for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].views.now.clock[r] = 1;
  }
  int size() const { return static_cast<int>(ranks_.size()); }
  rank_state& of(int r) { return ranks_[static_cast<std::size_t>(r)]; }

  /// Are accesses checked for races? Not those of a previous run, which are repeated.
  bool judges = true;
  /// The first data race: its address and a description.
  std::uintptr_t raced_at = 0;
  std::string race{};

  /// Plain accesses: to be called for every one.
  void touch(int r, std::uintptr_t first, std::size_t bytes, bool writes) {
    for (auto a = first / word_bytes * word_bytes; a < first + bytes; a += word_bytes) {
      auto& b = word_at(a);
      if (judges) judge(r, a, b, writes);
      (writes ? b.written : b.read)[static_cast<std::size_t>(r)] = own_clock(r);
    }
  }

  /// Adds the possible next steps of rank r; `leads_to` is a hash of the state after each.
  void steps_of(int r, std::vector<transition>& found) {
    auto& me = of(r);
    const auto& q = me.next;
    if (me.is == status::woken) return found.push_back({r, 0, after(r, mix(1, 0))});
    if (me.is != status::ready) return;
    if (q.what == act::fence)
      return found.push_back({r, 0, after(r, fence_event(me, q)) + fenced_after(me, q) - memory_.fenced_hash()});
    if (q.what == act::fence_all) return found.push_back({r, 0, fenced_all_hash(r)});
    if (q.what == act::pause) {
      for (const auto& l : me.polls)
        if (const auto& at = memory_.at(l.place); at.messages.back().at > l.at)
          found.push_back({r, at.address, after(r, mix(2, at.address))});
      return;
    }
    const auto p = place_of(q.address, q.bytes);
    auto& at = memory_.at(p);
    if (q.what == act::wake) return found.push_back({r, 0, wake_hash(r, p)});
    auto first = me.views.now.seen[p];
    if (q.what == act::sleep) first = std::max(first, at.woken);
    for (auto i = at.first(first); i < at.messages.size(); ++i) {
      const auto& m = at.messages[i];
      const bool writes = writes_after(q, m.value);
      if (writes && m.taken) continue;
      auto next = after(r, event(q, m), q.what == act::sleep && m.value == q.operand ? status::asleep : status::ready);
      if (writes) next += at.hash(i, next_id(r)) - at.hash();
      found.push_back({r, i, next});
    }
  }
  /// May rank r's step be done first without loss? What other ranks may do and read before a store, or before an awakening, they still may after it:
  /// unless they fence all ranks, which publishes the store.
  bool comes_first(int r, bool fences_all) {
    return of(r).is == status::woken || (!fences_all && of(r).is == status::ready && of(r).next.what == act::store);
  }
  /// A sleeper that no rank has woken wakes up.
  transition wakes_up(int r) { return {r, 0, after(r, mix(3, 0))}; }

  /// The value that the rank reads; if a comparison fails, it differs from the expected one.
  std::uint64_t take(const transition& t) {
    auto& me = of(t.rank);
    const auto& q = me.next;
    const auto r = static_cast<std::size_t>(t.rank);
    if (me.is != status::ready) {
      me.history = mix(me.history, me.is == status::woken ? mix(1, 0) : mix(3, 0));
      me.is = status::ready;
      return ++me.steps;
    }
    if (q.what == act::fence) {
      me.history = mix(me.history, fence_event(me, q));
      memory_.fence(me.views, r, q.how);
      return ++me.steps;
    }
    if (q.what == act::fence_all) {
      fence_all(t.rank);
      return ++me.steps;
    }
    if (q.what == act::pause) {
      const auto p = place_of(t.pick, 0);
      auto& at = memory_.at(p);
      auto& seen = me.views.now.seen[p];
      me.history = mix(me.history, mix(2, at.address));
      for (const auto& l : me.polls)
        if (l.place == p) seen = std::max(seen, at.messages[at.first(l.at + 1)].at);
      me.polls.clear();
      return ++me.steps;
    }
    return take_at(t, place_of(q.address, q.bytes));
  }

  /// The value that rank r has read there since its last pause, if it has.
  const std::uint64_t* polled(int r, std::uintptr_t address) {
    for (const auto& l : of(r).polls)
      if (memory_.at(l.place).address == address) return &l.value;
    return nullptr;
  }

  std::uint64_t state() {
    std::uint64_t sum = memory_.fenced_hash();
    for (int r = 0; r < size(); ++r) sum += term(r, of(r).history, of(r).is);
    for (std::size_t p = 0; p < memory_.places(); ++p) sum += memory_.at(p).hash();
    return now_ = sum;
  }

 private:
  static constexpr std::size_t word_bytes = 4;  ///< the unit of races: no two ranks share a word
  struct word {
    std::uint32_t run;
    std::uint16_t place;                                  ///< plus 1
    std::array<std::uint32_t, most_ranks> read, written;  ///< each rank's clock at its last access
  };

  static std::uint64_t term(int r, std::uint64_t history, status is) {
    return mix(mix(static_cast<std::uint64_t>(r) + 1, history), is == status::asleep ? 1 : is == status::woken ? 2 : 0);
  }
  std::uint64_t after(int r, std::uint64_t event, status is = status::ready) {
    return now_ - term(r, of(r).history, of(r).is) + term(r, mix(of(r).history, event), is);
  }
  std::uint32_t next_id(int r) { return static_cast<std::uint32_t>(r + 1) << 20 | (of(r).steps + 1); }
  std::uint32_t own_clock(int r) { return of(r).views.now.clock[static_cast<std::size_t>(r)]; }

  static bool writes_after(const request& q, std::uint64_t value) {
    return q.what == act::store || q.what == act::add || q.what == act::exchange ||
           (q.what == act::compare && value == q.expected);
  }
  static std::uint64_t event(const request& q, const message& m) {
    return mix(16 + static_cast<std::uint64_t>(q.what), q.what == act::store ? 0 : m.id);
  }
  std::uint64_t fence_event(const rank_state& me, const request& q) {
    return q.how == order::sequential ? mix(4, memory_.fenced_hash(&me.views))
                                      : mix(5, static_cast<std::uint64_t>(q.how));
  }
  std::uint64_t fenced_after(const rank_state& me, const request& q) {
    return memory_.fenced_hash(q.how == order::sequential ? &me.views : nullptr);
  }
  /// Every rank executes a fence here: the one that asks for it first and last.
  void fence_all(int r) {
    const auto one = [this](int s) {
      auto& its = of(s);
      memory_.fence(its.views, static_cast<std::size_t>(s), order::sequential);
      its.history = mix(its.history, mix(7, memory_.fenced_hash()));
    };
    one(r);
    for (int s = 0; s < size(); ++s)
      if (s != r) one(s);
    one(r);
  }
  std::uint64_t fenced_all_hash(int r) {
    const auto memory = memory_;
    const auto before = ranks_;
    const auto now = now_;
    fence_all(r);
    const auto hash = state();
    memory_ = memory, ranks_ = before, now_ = now;
    return hash;
  }
  std::uint64_t wake_hash(int r, std::size_t p) {
    auto& at = memory_.at(p);
    auto sum = after(r, mix(6, 0)) - at.hash();
    const auto before = std::exchange(at.woken, std::max(at.woken, of(r).views.now.seen[p]));
    sum += at.hash();
    at.woken = before;
    for (int s = 0; s < size(); ++s)
      if (is_asleep_at(s, p)) sum += term(s, of(s).history, status::woken) - term(s, of(s).history, status::asleep);
    return sum;
  }
  bool is_asleep_at(int r, std::size_t p) { return of(r).is == status::asleep && of(r).asleep_at == p; }

  std::uint64_t take_at(const transition& t, std::size_t p) {
    auto& me = of(t.rank);
    const auto& q = me.next;
    auto& at = memory_.at(p);
    const auto id = next_id(t.rank);
    ++me.steps;
    if (q.what == act::wake) {
      me.history = mix(me.history, mix(6, 0));
      at.woken = std::max(at.woken, me.views.now.seen[p]);
      for (int s = 0; s < size(); ++s)
        if (is_asleep_at(s, p)) of(s).is = status::woken;
      return 0;
    }
    const message m = at.messages[t.pick];
    const bool writes = writes_after(q, m.value), reads = q.what != act::store;
    me.history = mix(me.history, event(q, m));
    touch_atomically(t.rank, at, writes);
    if (q.what == act::sleep && m.value == q.operand) me.is = status::asleep, me.asleep_at = p;
    if (reads) {
      memory_.read(me.views, p, t.pick,
                   q.what == act::sleep               ? order::relaxed
                   : writes || q.what != act::compare ? q.how
                                                      : q.otherwise);
      std::erase_if(me.polls, [&](const auto& l) { return l.place == p; });
      me.polls.push_back({p, m.at, m.value});
    }
    if (writes) {
      if (reads) at.messages[t.pick].taken = true;
      const auto value = q.what == act::add ? m.value + q.operand : q.operand;
      const auto kept = q.bytes == 8 ? value : value & ((std::uint64_t{1} << 8 * q.bytes) - 1);
      memory_.write(me.views, static_cast<std::size_t>(t.rank), p, t.pick, kept, q.how, id, reads ? &m.known : nullptr);
    }
    return m.value;
  }

  // Races.

  word& word_at(std::uintptr_t a) {
    auto& b = words_[(a - reinterpret_cast<std::uintptr_t>(zone)) / word_bytes];
    if (b.run != run_) b = {run_, 0, {}, {}};
    return b;
  }
  std::size_t place_of(std::uintptr_t address, std::size_t bytes) {
    auto& first = word_at(address);
    if (first.place == 0) {
      const auto p = memory_.add(address, bytes);
      for (auto a = address; a < address + bytes; a += word_bytes) word_at(a).place = static_cast<std::uint16_t>(p + 1);
    }
    return first.place - 1u;
  }
  void judge(int r, std::uintptr_t a, const word& b, bool writes) {
    const place* const p = b.place > 0 ? &memory_.at(b.place - 1u) : nullptr;
    against(r, a, b.written, writes ? "writes" : "reads", "writes");
    if (p) against(r, a, p->written, writes ? "writes" : "reads", "writes atomically");
    if (writes) against(r, a, b.read, "writes", "reads");
    if (writes && p) against(r, a, p->read, "writes", "reads atomically");
  }
  void touch_atomically(int r, place& p, bool writes) {
    for (auto a = p.address; judges && a < p.address + p.bytes; a += word_bytes) {
      against(r, a, word_at(a).written, writes ? "writes atomically" : "reads atomically", "writes");
      if (writes) against(r, a, word_at(a).read, "writes atomically", "reads");
    }
    (writes ? p.written : p.read)[static_cast<std::size_t>(r)] = own_clock(r);
  }
  void against(int r, std::uintptr_t a, const std::array<std::uint32_t, most_ranks>& others, const char* does,
               const char* did) {
    for (std::size_t o = 0; o < ranks_.size(); ++o) {
      if (static_cast<int>(o) == r || others[o] <= of(r).views.now.clock[o] || !race.empty()) continue;
      raced_at = a;
      race = "a data race: rank " + std::to_string(r) + " " + does + " what rank " + std::to_string(o) + " " + did;
    }
  }

  memory memory_{};
  std::vector<rank_state> ranks_{};
  std::uint64_t now_ = 0;  ///< the state's hash
  std::uint32_t run_ = 0;
  std::unique_ptr<word[]> words_{new word[sizeof zone / word_bytes]{}};
};

}  // namespace explore
