// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which rank sends which block to which in each round, over links that carry a fixed number of blocks a round.
#pragma once

#include <kolo/schedule/synthesized.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::schedule {

/// Two ranks that are joined by a link, or by links over switches only.
struct joined_pair {
  int from, to;
  std::vector<int> links;
};

/// The blocks to spread: at first each rank of an allgather has `chunks` blocks, the root of a broadcast has all.
struct spreading {
  int ranks, blocks, chunks, root;  ///< root -1: an allgather
  bool one_copy_a_round;            ///< no rank sends a block twice in a round: reversed, it would combine two at once
  bool enters_once;                 ///< a block enters a cluster of wider links once, and spreads there
  int owner(int block) const { return root >= 0 ? root : block / chunks; }
};

/// Greedy matching in a network that is expanded in time: in each round every link carries as many blocks as fit. It
/// takes, of the blocks that the sender has and the receiver lacks, the one that the fewest ranks have, or the longest
/// run of them if there is room for several.
///
/// Source: Won et al., "TACOS: topology-aware collective algorithm synthesizer", arXiv 2304.05301.
class matching {
 public:
  matching(const spreading& what, const std::vector<joined_pair>& pairs, std::vector<int> capacity)
      : what_{what}, capacity_{std::move(capacity)}, words_{(at(what.blocks) + 63) / 64} {
    into_.resize(at(what.ranks));
    for (const joined_pair& p : pairs)
      if (fits(p)) into_[at(p.to)].push_back(&p);
    has_.assign(at(what.ranks) * words_, 0);
    holders_.assign(at(what.blocks), 1);
    find_clusters();
    near_.assign(has_.size(), 0);
    for (int b = 0; b < what.blocks; ++b) set(has_, what.owner(b), b), set(near_, group_[at(what.owner(b))], b);
    missing_ = at(what.blocks) * at(what.ranks - 1);
  }

  /// Returns nothing if some rank cannot be reached.
  std::optional<std::vector<scheduled_message>> run() {
    for (int round = 0; missing_ > 0; ++round) {
      const std::size_t before = all_.size();
      match(round);
      if (all_.size() == before) return std::nullopt;
      // Each rank sends to its next rank first: if all began with the same rank, the others would wait.
      const auto distance = [&](const scheduled_message& d) { return (d.to - d.from + what_.ranks) % what_.ranks; };
      std::stable_sort(
          all_.begin() + std::ptrdiff_t(before), all_.end(),
          [&](const scheduled_message& a, const scheduled_message& b) { return distance(a) < distance(b); });
      for (std::size_t i = before; i < all_.size(); ++i)
        for (int b = all_[i].first; b < all_[i].first + all_[i].count; ++b) set(has_, all_[i].to, b), --missing_;
    }
    return std::move(all_);
  }

 private:
  using bits = std::vector<std::uint64_t>;
  static std::size_t at(int i) { return std::size_t(i); }
  std::size_t word(int rank, int block) const { return at(rank) * words_ + at(block) / 64; }
  void set(bits& of, int rank, int block) const { of[word(rank, block)] |= std::uint64_t{1} << (block % 64); }
  bool fits(const joined_pair& p) const {
    return std::all_of(p.links.begin(), p.links.end(), [&](int l) { return capacity_[at(l)] > 0; });
  }
  std::uint64_t random() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }

  int width(const joined_pair& p) const {
    int least = what_.blocks;
    for (const int l : p.links) least = std::min(least, capacity_[at(l)]);
    return least;
  }
  /// Clusters: ranks joined by links wider than the narrowest; if all links are equally wide, all ranks are one.
  void find_clusters() {
    int narrowest = what_.blocks, widest = 0;
    for (const auto& pairs : into_)
      for (const joined_pair* p : pairs)
        narrowest = std::min(narrowest, width(*p)), widest = std::max(widest, width(*p));
    group_.resize(at(what_.ranks));
    for (int r = 0; r < what_.ranks; ++r) group_[at(r)] = narrowest == widest ? 0 : r;
    for (bool changes = narrowest != widest; changes;) {
      changes = false;
      for (const auto& pairs : into_)
        for (const joined_pair* p : pairs)
          if (width(*p) > narrowest && group_[at(p->from)] < group_[at(p->to)])
            group_[at(p->to)] = group_[at(p->from)], changes = true;
    }
  }

  void match(int round) {
    left_ = capacity_;
    sent_.assign(has_.size(), 0);
    wanted_.resize(has_.size());
    for (std::size_t i = 0; i < has_.size(); ++i) wanted_[i] = ~has_[i];
    sends_.assign(at(what_.ranks), 0);
    receives_.assign(at(what_.ranks), 0);
    begin_ = int(random() % at(what_.ranks));
    const std::size_t before = all_.size();
    brings_news_only_ = what_.enters_once;
    try_all(round, true);
    try_all(round, false);
    brings_news_only_ = false;
    if (all_.size() == before) try_all(round, false);
  }
  /// `whole`: only runs of blocks that fill the links of a pair.
  void try_all(int round, bool whole) {
    for (int k = 0; k < what_.ranks; ++k) {
      const int to = (begin_ + k) % what_.ranks;
      auto& pairs = into_[at(to)];
      if (pairs.size() > 1 && whole) std::rotate(pairs.begin(), pairs.begin() + 1, pairs.end());
      for (const joined_pair* p : pairs) {
        if (receives_[at(to)] == step::capacity) break;
        if (sends_[at(p->from)] < step::capacity && try_pair(*p, round, whole))
          ++receives_[at(to)], ++sends_[at(p->from)];
      }
    }
  }

  bool try_pair(const joined_pair& p, int round, bool whole) {
    int room = what_.blocks;
    for (const int l : p.links) room = std::min(room, left_[at(l)]);
    if (room <= 0) return false;
    scheduled_message d{round, p.from, p.to, 0, 0};
    if (room == 1) d.first = rarest_block(p), d.count = d.first >= 0 ? 1 : 0;
    else longest_run(p, room, d);
    if (d.count == 0) return false;
    if (whole && d.count < width(p)) return false;
    for (int b = d.first; b < d.first + d.count; ++b) {
      wanted_[word(p.to, b)] &= ~(std::uint64_t{1} << (b % 64));
      set(sent_, p.from, b);
      set(near_, group_[at(p.to)], b);
      ++holders_[at(b)];
    }
    for (const int l : p.links) left_[at(l)] -= d.count;
    all_.push_back(d);
    return true;
  }
  std::uint64_t possible(const joined_pair& p, std::size_t w) const {
    const std::size_t mine = at(p.from) * words_ + w, theirs = at(p.to) * words_ + w;
    const bool is_near = !brings_news_only_ || group_[at(p.from)] == group_[at(p.to)];
    return has_[mine] & wanted_[theirs] & ~(what_.one_copy_a_round ? sent_[mine] : 0) &
           ~(is_near ? 0 : near_[at(group_[at(p.to)]) * words_ + w]);
  }
  bool can(const joined_pair& p, int block) const { return possible(p, at(block) / 64) >> (block % 64) & 1; }
  /// The longest run of at most `room` blocks; of several, the one whose first block the fewest ranks have.
  void longest_run(const joined_pair& p, int room, scheduled_message& d) const {
    int rarity = 0;
    for (int b = 0; b < what_.blocks;) {
      if (!can(p, b)) {
        ++b;
        continue;
      }
      int end = b + 1;
      while (end < what_.blocks && end - b < room && can(p, end)) ++end;
      const int here = holders_[at(b)];
      if (end - b > d.count || (end - b == d.count && here < rarity)) d.first = b, d.count = end - b, rarity = here;
      b = end;
    }
  }
  int rarest_block(const joined_pair& p) {
    int best = -1, least = 0;
    const std::size_t begin = random() % words_;
    const int turned = int(random() % 64);
    for (std::size_t k = 0; k < words_; ++k) {
      const std::size_t w = (begin + k) % words_;
      for (std::uint64_t b = std::rotr(possible(p, w), turned); b != 0; b &= b - 1) {
        const int block = int(w * 64) + (std::countr_zero(b) + turned) % 64;
        const int here = 2 * holders_[at(block)] + (continues(p.to, block) ? 0 : 1);
        if (best < 0 || here < least) best = block, least = here;
      }
    }
    return best;
  }
  bool continues(int rank, int block) const {
    if (block % what_.chunks == 0) return false;
    return (has_[word(rank, block - 1)] >> ((block - 1) % 64) & 1) != 0;
  }

  spreading what_;
  std::vector<int> capacity_;  // of each link: blocks per round
  std::size_t words_;
  std::vector<std::vector<const joined_pair*>> into_{};
  bits has_{}, wanted_{}, sent_{}, near_{};  // near: of each group, the blocks that one of its ranks has
  bool brings_news_only_ = false;            // whether a block may enter each group only once
  std::vector<int> group_{};                 // of each rank: the least rank of its cluster
  std::vector<int> holders_{}, left_{}, sends_{}, receives_{};
  int begin_ = 0;
  std::size_t missing_ = 0;
  std::vector<scheduled_message> all_{};
  std::uint64_t state_ = 0x9e3779b97f4a7c15u;
};

}  // namespace kolo::inline KOLO_ABI::detail::schedule
