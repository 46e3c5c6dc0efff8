// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The agreement of survivors in shared memory: they all take places in one region, and do not wait for a rank that is lost meanwhile.
#pragma once

#include "explore/ranks.hpp"

#include <array>
#include <chrono>
#include <vector>

namespace explore {

/// All ranks of a region know each other before it begins, so that only the agreement is explored, and no rank appears dead by itself.
struct agreement : group {
  using survivors = kolo::detail::shm::survivors<explored_mapping>;
  explicit agreement(int size) : group{size, 1} {}

  void begin() override {
    group::begin();
    transport::introduce(
        memory, region, shape,
        std::vector<kolo::detail::os::process_id>(static_cast<std::size_t>(ranks), kolo::detail::os::process_id{1}));
    places_of_survivors = {};
  }
  void rank(int r) override { agree(r); }
  void end() override { are_together(ranks); }

 protected:
  static constexpr std::chrono::seconds deadline{10};
  survivors::place_of_survivor& place_of_survivor(int r) { return places_of_survivors[static_cast<std::size_t>(r)]; }
  std::byte* old() const { return memory.map(region, shape.bytes()).get(); }
  void agree(int r) { place_of_survivor(r) = survivors{memory, old(), shape, r}.agree(deadline); }

  /// As the transport does. True: all have arrived.
  bool arrive(int r) {
    const auto mine = place_of_survivor(r);
    require(mine.rank >= 0 && mine.shape.ranks <= ranks, "a survivor is left out");
    auto* const next = memory.map(mine.region, mine.shape.bytes()).get();
    kolo::detail::shm::state_of(next, mine.rank)
        .present.store(kolo::detail::shm::presence::here, std::memory_order_release);
    return survivors{memory, old(), shape, r}.all_have_come(next, mine, deadline);
  }
  void are_together(int left) {
    for (int r = 0; r < left; ++r)
      require(place_of_survivor(r).rank == r && place_of_survivor(r).region == place_of_survivor(0).region,
              "survivors do not have the places of their numbers in one region");
  }

 private:
  std::array<survivors::place_of_survivor, most_ranks> places_of_survivors{};
};

/// They have agreed, and arrive one by one.
struct arrival : agreement {
  explicit arrival(int size) : agreement{size} {}
  void begin() override {
    agreement::begin();
    const auto next = transport::initialise(memory, shape);
    for (int r = 0; r < ranks; ++r) {
      kolo::detail::shm::state_of(memory.map(next, shape.bytes()).get(), r).former = r + 1;
      place_of_survivor(r) = {next, shape, r};
    }
  }
  void rank(int r) override { require(arrive(r), "a rank has not arrived"); }
};

/// The last rank dies, which its parent announces: before it has asked to shrink, or after.
struct agreement_without_one : agreement {
  agreement_without_one(int size, bool it_asks) : agreement{size}, asks{it_asks} { time_passes = true; }
  void rank(int r) override {
    if (r < ranks - 1) return agree(r);
    if (asks) kolo::detail::shm::state_of(old(), r).wants_shrink.store(1, std::memory_order_release);
    transport::announce_death(memory, region, shape, r);
  }
  void end() override {
    are_together(ranks - 1);
    require(asks || place_of_survivor(0).shape.ranks == ranks - 1, "a rank that never asked has a place");
  }
  bool asks;
};

/// The last rank has died and does not arrive; the others all notice that. (No rank is woken in the new region by a death, so a later death would be noticed
/// by the clock alone, and the exploration would not end.)
struct arrival_without_one : arrival {
  explicit arrival_without_one(int size) : arrival{size} { time_passes = true; }
  void begin() override {
    arrival::begin();
    transport::announce_death(memory, region, shape, ranks - 1);
  }
  void rank(int r) override {
    if (r == ranks - 1) return;
    const auto since = std::chrono::steady_clock::now();
    require(!arrive(r), "a lost rank has arrived");
    require(std::chrono::steady_clock::now() - since < deadline, "a lost rank is waited for");
  }
};

inline bool all_agreements() {
  return holds("survivors: 2 agree on a region", agreement{2}) &&
         holds("survivors: 1 of 2, the other dies before", agreement_without_one{2, false}) &&
         holds("survivors: 1 of 2, the other asks and dies", agreement_without_one{2, true}) &&
         holds("survivors: 2 arrive", arrival{2}) && holds("survivors: 1 of 2 arrives", arrival_without_one{2}) &&
         holds("survivors: 2 of 3 arrive", arrival_without_one{3});
}

}  // namespace explore
