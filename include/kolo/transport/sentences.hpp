// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Error texts that several transports use.
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/transport/transport.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::transport {

inline constexpr std::string_view destroyed_by_an_exception = "an exception destroyed its communicator";

/// "0.250 s".
[[gnu::cold, gnu::noinline]] inline std::string in_seconds(std::chrono::nanoseconds t) {
  const auto ms = t / std::chrono::milliseconds{1};
  return core::text_of({ms / 1000, ".", ms / 100 % 10, ms / 10 % 10, ms % 10, " s"});
}

/// Appended to the text of a mismatch if calls were not compared: of two ranks, neither can know which one is wrong.
inline constexpr std::string_view which_rank_is_wrong =
    " (who is wrong is not known: KOLO_CHECKED=1 in the environment of all ranks compares calls before they run)";

/// The text about a rank whose message, or piece, is not the one that this rank awaits.
inline std::string unexpected_message_text(int peer) {
  return core::text_of({"rank ", peer,
                        " does something else than this one: another collective, count, type, operator, algorithm, "
                        "root or optimizer, now or in a call before",
                        which_rank_is_wrong});
}

/// Fails for all ranks: the peer's message is not the one that this rank awaits. `transport` numbers ranks as all do.
template <class T>
[[noreturn, gnu::cold]] void report_mismatch(T& transport, int peer) {
  throw error{transport.fail(
      failure_from({.peer = peer}, errc::mismatch, transport.rank(), {}, unexpected_message_text(peer)))};
}

/// The text about a rank that will not send the data that this rank awaits.
inline std::string is_gone_sentence(int peer, bool has_died) {
  return core::text_of(
      {"rank ", peer, has_died ? " died" : " has destroyed its communicator, and is still waited for"});
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
