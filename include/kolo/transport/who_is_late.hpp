// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When a deadline passes, the rank that is waited for often waits itself: whom does everybody wait for in the end?
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/transport/sentences.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kolo::inline KOLO_ABI::detail::transport {

/// What is known of one rank when the deadline of a call passes.
struct sign_of_life {
  enum what {
    done,     ///< it has ended that call: nobody waits for it there
    waiting,  ///< it waits for another one, and has looked for that a moment ago
    busy,     ///< it has not begun the call, or a call before, and waits for nobody
    silent,   ///< it is in a call, and has not looked for long: computing, or stuck
    stopped   ///< its process is: by a signal, or by a debugger
  };
  what is = done;
  int awaits = -1;          ///< of one that waits: whom it looked for last
  std::int64_t polled = 0;  ///< when it last looked for somebody; 0: it never has
};

inline constexpr int not_known = -1;

/// `first`: for whom the asking rank waits, whose own sign says `waiting`. That a rank which waits looked for another
/// one last is a fact about who needs whom, so whoever stands at the end of such a chain, and does not wait, is the
/// one. Where the chain comes back to itself (several are awaited at once, and the last one that was looked for is no
/// better off), one who is stopped, or else the one that has not been heard of for longest. Nobody, where all wait.
[[gnu::cold, gnu::noinline]] inline int who_is_late(std::span<const sign_of_life> of, int first) {
  const auto count = static_cast<int>(of.size());
  const auto at = [&](int r) -> const sign_of_life& { return of[static_cast<std::size_t>(r)]; };
  int end = first;
  for (int steps = 0; steps < count && end >= 0 && end < count && at(end).is == sign_of_life::waiting; ++steps)
    end = at(end).awaits;
  const bool is_found = end >= 0 && end < count && at(end).is > sign_of_life::waiting;
  if (is_found && at(end).is != sign_of_life::silent) return end;
  int longest = not_known;
  for (int r = 0; r < count; ++r) {
    if (at(r).is == sign_of_life::stopped) return r;
    if (at(r).is > sign_of_life::waiting && (longest == not_known || at(r).polled < at(longest).polled)) longest = r;
  }
  return is_found ? end : longest;
}

/// "rank 0 waits for rank 1, which waits for rank 0": the circle that `first` waits for; empty: it leads to none.
[[gnu::cold, gnu::noinline]] inline std::string circle_behind(std::span<const sign_of_life> of, int first) {
  const auto count = static_cast<int>(of.size());
  const auto awaited_by = [&](int r) {
    const bool waits = r >= 0 && r < count && of[static_cast<std::size_t>(r)].is == sign_of_life::waiting;
    return waits ? of[static_cast<std::size_t>(r)].awaits : not_known;
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

/// `late`: as `who_is_late` says; `first`: for whom the rank that says it has waited, for so long.
[[gnu::cold, gnu::noinline]] inline std::string sentence_about_late(std::span<const sign_of_life> of, int late,
                                                                    int first, std::chrono::nanoseconds waited) {
  const auto in_time = core::text_of({" has not done its part within ", in_seconds(waited)});
  if (late == not_known) {
    const auto circle = circle_behind(of, first);
    return core::text_of({"rank ", first, in_time,
                          ", and it waits itself, as all do: ", circle.empty() ? "who is late is not known" : circle});
  }
  const auto at = static_cast<std::size_t>(late);
  const bool is_stopped = at < of.size() && of[at].is == sign_of_life::stopped;
  const char* const and_stopped = is_stopped ? "; its process is stopped" : "";
  if (late == first) return core::text_of({"rank ", late, " is late: it", in_time, and_stopped});
  return core::text_of({"rank ", late, " is late: rank ", first, in_time, ", and waits for it as well", and_stopped});
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
