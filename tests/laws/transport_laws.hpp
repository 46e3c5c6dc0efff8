// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::Transport, each a function that every rank calls with its transport; it returns the law that is broken, or nothing. All ranks have made
// theirs before one begins: a law may fail on purpose, and leave.
#pragma once

#include <kolo/kolo.hpp>

#include <chrono>
#include <string>

namespace laws {

using namespace std::chrono_literals;

inline kolo::wait_context waiting_for(int peer, std::chrono::nanoseconds at_most = 20s) {
  return {.operation = "law", .sequence = 4, .round = 2, .peer = peer, .timeout = at_most};
}

/// Waits as an operation does.
template <kolo::Transport T, class Condition>
void until(T& t, int peer, Condition condition) {
  for (kolo::backoff p; !condition();) t.relax(p, waiting_for(peer));
}

/// relax throws on failure; otherwise this never ends.
template <kolo::Transport T>
kolo::failure end_of_waiting(T& t, int peer, std::chrono::nanoseconds at_most = 20s) {
  try {
    for (kolo::backoff p;;) t.relax(p, waiting_for(peer, at_most));
  } catch (const kolo::error& e) {
    return e.cause();
  }
}

inline kolo::failure failure_of(int rank) {
  kolo::failure f;
  f.code = kolo::errc::system;
  f.rank = f.peer = rank;
  f.text = "law";
  return f;
}

inline constexpr auto is_constant = [](auto& t) -> std::string {
  const int rank = t.rank(), size = t.size();
  if (rank < 0 || rank >= size) return "the rank is in 0 ... size - 1";
  const auto place = t.place();
  if (place.local_rank < 0 || place.local_rank >= place.local_size || place.node_rank < 0 ||
      place.node_rank >= place.node_count)
    return "the place is in its ranges";
  for (int k = 0; k < 3; ++k) {
    if (t.rank() != rank || t.size() != size || t.timeout() <= 0ns) return "rank, size and timeout are constant";
    if (t.place().local_rank != place.local_rank || t.place().node_rank != place.node_rank)
      return "the place is constant";
    if (t.failed()) return "there is no failure";
  }
  return "";
};

/// All fail at the same time: one failure is the first, and all agree on it; transport.hpp says how a transport without shared memory achieves that.
inline constexpr auto keeps_the_first_failure = [](auto& t) -> std::string {
  const int first = t.fail(failure_of(t.rank())).peer;
  if (first < 0 || first >= t.size()) return "the first failure is that of a rank";
  for (int k = 0; k < 10; ++k)
    if (t.fail(failure_of(100 + k)).peer != first) return "a later failure changed the first one";
  if (!t.failed() || t.failed()->peer != first) return "failed() returns the first failure";
  if (end_of_waiting(t, 0).peer != first) return "relax throws the first failure";
  try {
    kolo::backoff p;
    t.check(p, waiting_for(0));
    return "check throws on failure";
  } catch (const kolo::error& e) {
    return e.peer() == first ? "first " + std::to_string(first) : "check throws the first failure";
  }
};

/// The others sleep until rank 0 fails; then they get its failure at once.
inline constexpr auto failure_wakes_everybody = [](auto& t) -> std::string {
  if (t.rank() == 0) t.fail(failure_of(0));
  const auto f = end_of_waiting(t, 0);
  return f.peer == 0 && f.code == kolo::errc::system && std::string_view{f.text} == "law"
             ? ""
             : "another failure than rank 0's";
};

/// So they do when the last rank fails: rank 0 sleeps as well, also if it decides which failure was the first.
inline constexpr auto failure_of_the_last_wakes_everybody = [](auto& t) -> std::string {
  const int last = t.size() - 1;
  if (t.rank() == last) t.fail(failure_of(last));
  const auto f = end_of_waiting(t, last);
  return f.peer == last && f.code == kolo::errc::system && std::string_view{f.text} == "law"
             ? ""
             : "another failure than the last rank's";
};

/// Rank 0 times out; the others get its failure.
inline constexpr auto deadline_passes = [](auto& t) -> std::string {
  const int late = t.size() - 1;
  const auto f =
      end_of_waiting(t, late, t.rank() == 0 ? std::chrono::nanoseconds{50ms} : std::chrono::nanoseconds{20s});
  if (f.code != kolo::errc::timeout || f.peer != late || f.rank != 0)
    return "the timeout names the peer and the rank that waited for it";
  if (f.round != 2 || f.sequence != 4 || std::string_view{f.operation} != "law" || f.waited_ns < 50'000'000)
    return "the timeout contains the operation and the time";
  return "";
};

/// Ranks with the same color are ordered by key and then by rank.
inline constexpr auto split_orders_by_key_and_rank = []<class T>(T& t) -> std::string {
  const int p = t.size(), r = t.rank();
  const auto color = [](int q) { return q % 2 == 0 ? 7 : -3; };
  const auto key = [](int q) { return -(q / 4); };  // neighbours in a color share a key
  int size = 0, before = 0;
  for (int q = 0; q < p; ++q) {
    if (color(q) != color(r)) continue;
    ++size;
    if (key(q) < key(r) || (key(q) == key(r) && q < r)) ++before;
  }
  T child{t.split(color(r), key(r))};
  if (child.size() != size || child.rank() != before) return "split orders by key and rank";
  T alone{child.split(r, 0)};
  if (alone.size() != 1 || alone.rank() != 0) return "a split communicator may have one rank";
  if (alone.fail(failure_of(0)).peer != 0 || child.failed() || t.failed())
    return "a failure does not leave its communicator";
  return "";
};

/// Two groups of all ranks, with different numbers. The last rank, 0 in `failing` and 1 in `other`, fails in `failing`; ranks that wait there unwind, and
/// destroy their part of `other`. A rank that waits in `other` gets the failure of the last rank.
inline constexpr auto passes_on_what_failed_elsewhere = []<class T>(T& t) -> std::string {
  const int p = t.size(), r = t.rank(), failing_rank = p - 1;
  if (p < 3) return "";
  T failing{t.split(0, -r)};
  T other{t.split(0, (r + 2) % p)};
  if (r == failing_rank) failing.fail(failure_of(failing.rank()));
  if (r != failing_rank && r != 0) {
    try {
      const auto leaves = std::move(other);
      until(failing, 0, [] { return false; });
    } catch (const kolo::error& e) {
      return e.peer() == 0 ? "" : "another failure than the last rank's";
    }
  }
  const auto f = end_of_waiting(other, 3 % p);
  if (f.peer != 1 || f.code != kolo::errc::system) return "blames rank " + std::to_string(f.peer);
  const std::string_view text = f.text;
  return text.ends_with(", where rank 1 is rank 0: rank 0: law") ? "" : "says: " + std::string{text};
};

}  // namespace laws
