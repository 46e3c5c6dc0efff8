// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When a deadline passes, the awaited rank often waits itself: finds the rank that all ranks wait for in the end.
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/transport/sentences.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::transport {

/// The state of one rank when the deadline of a call passes.
struct sign_of_life {
  enum what {
    done,     ///< it has ended that call: no rank waits for it there
    waiting,  ///< it waits for another rank, and has polled recently
    busy,     ///< it has not begun the call, or an earlier one, and does not wait
    silent,   ///< it is in a call, and has not polled for long: computing, or stuck
    stopped   ///< its process is: by a signal, or by a debugger
  };
  what is = done;
  int awaits = -1;          ///< of a waiting rank: the rank that it last polled for
  std::int64_t polled = 0;  ///< when it last polled; 0: never
  bool needs_one = false;   ///< it waits in a point-to-point operation: for that rank, and for no other
};

inline constexpr int not_known = -1;

/// `first`: the rank that the asking rank waits for; the asking rank's own sign is `waiting`. The rank that a waiting
/// rank last polled for is one it needs, so the rank at the end of such a chain, which does not wait, is late. If the
/// chain is a circle (several ranks are awaited at once, and the one polled last also waits), the late rank is one that
/// is stopped, or else the one that has not polled for longest. If all wait, or those of the circle need no other rank,
/// it is `not_known`.
[[gnu::cold, gnu::noinline]] inline int who_is_late(std::span<const sign_of_life> of, int first) {
  const auto count = int(of.size());
  const auto at = [&](int r) -> const sign_of_life& { return of[std::size_t(r)]; };
  int end = first;
  bool need_one = true;
  for (int steps = 0; steps < count && end >= 0 && end < count && at(end).is == sign_of_life::waiting; ++steps) {
    need_one = need_one && at(end).needs_one;
    end = at(end).awaits;
  }
  const bool is_known = end >= 0 && end < count;
  if (is_known && need_one && at(end).is == sign_of_life::waiting) return not_known;
  const bool is_found = is_known && at(end).is > sign_of_life::waiting;
  if (is_found && at(end).is != sign_of_life::silent) return end;
  int longest = not_known;
  for (int r = 0; r < count; ++r) {
    if (at(r).is == sign_of_life::stopped) return r;
    if (at(r).is > sign_of_life::waiting && (longest == not_known || at(r).polled < at(longest).polled)) longest = r;
  }
  return is_found ? end : longest;
}

/// "rank 0 waits for rank 1, which waits for rank 0": the circle at the end of the chain from `first`; empty: there is
/// none.
[[gnu::cold, gnu::noinline]] inline std::string cycle_from(std::span<const sign_of_life> of, int first) {
  const auto count = int(of.size());
  const auto awaited_by = [&](int r) {
    const bool waits = r >= 0 && r < count && of[std::size_t(r)].is == sign_of_life::waiting;
    return waits ? of[std::size_t(r)].awaits : not_known;
  };
  int begin = first;
  for (int steps = 0; steps < count; ++steps) begin = awaited_by(begin);
  if (awaited_by(begin) == not_known) return {};
  int next = awaited_by(begin);
  std::string text = core::text_of({"rank ", begin, " waits for rank ", next});
  for (; next != begin; next = awaited_by(next))
    core::append_words(text, {", which waits for rank ", awaited_by(next)});
  return text;
}

/// `late`: the result of `who_is_late`; `first`: the rank that the reporting rank has waited for; `waited`: for how
/// long; `last`: what the late rank has begun last, or else `first`, if that is known (see `last_operation`).
[[gnu::cold, gnu::noinline]] inline std::string sentence_about_late(std::span<const sign_of_life> of, int late,
                                                                    int first, std::chrono::nanoseconds waited,
                                                                    std::string_view last = {}) {
  const auto in_time = core::text_of({" has not done its part within ", in_seconds(waited)});
  if (late == not_known) {  // the circle may be cut, since it is as long as there are ranks
    const auto circle = cycle_from(of, first);
    return core::text_of({"rank ", first, in_time, last,
                          ", and it waits itself: ", circle.empty() ? "who is late is not known" : circle});
  }
  const auto at = std::size_t(late);
  const bool is_stopped = at < of.size() && of[at].is == sign_of_life::stopped;
  const char* const and_stopped = is_stopped ? "; its process is stopped" : "";
  if (late == first) return core::text_of({"rank ", late, " is late: it", in_time, and_stopped, last});
  return core::text_of(
      {"rank ", late, " is late: rank ", first, in_time, ", and waits for it as well", and_stopped, last});
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
