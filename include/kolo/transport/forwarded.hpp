// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The failure that a rank reports when an exception destroys its communicator: it may pass on another communicator's
// failure.
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/sentences.hpp>
#include <kolo/transport/transport.hpp>

#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::transport {

/// The identity of a rank that its transport cannot tell from others.
inline constexpr rank_identity unknown_rank{.among = ~std::uint64_t{0}};

inline bool is_known(const rank_identity& who) { return who != rank_identity{} && who != unknown_rank; }

/// -1: no rank here, as far as `transport` knows.
template <class T>
int rank_of(const T& transport, const rank_identity& who) {
  if (!is_known(who)) return -1;
  if constexpr (FindsRanks<T>) return transport.rank_of(who);
  else if constexpr (Identifiable<T>)
    for (int r = 0; r < transport.size(); ++r)
      if (transport.who(r) == who) return r;
  return -1;
}

/// Adds the identity of the peer, a rank of `transport`; unless the failure names a culprit already, whose transport
/// may number ranks differently.
template <class T>
failure with_peer_identity(const T& transport, failure f) {
  if (f.peer < 0 || f.caused_by != rank_identity{}) return f;
  f.caused_by = unknown_rank;
  if constexpr (Identifiable<T>)
    if (f.peer < transport.size()) f.caused_by = transport.who(f.peer);
  return f;
}

/// Whether a rank other than the one that got this error caused it, even if that rank is not known.
inline bool is_of_another(const failure& f) {
  switch (f.code) {
    case errc::peer_died:
    case errc::peer_failed:
    case errc::peer_left: return true;
    case errc::timeout:
    case errc::mismatch: return f.rank >= 0 && f.rank != f.peer;
    default: return is_known(f.caused_by);
  }
}

/// The failure that this rank reports on `transport` while an exception unwinds its stack. If the exception is another
/// communicator's failure: that failure, and its culprit, if it is a rank here, else no rank. If this rank is the
/// culprit, or the exception is not kolo's: `own`, and this rank.
[[gnu::cold, gnu::noinline]] failure failure_while_unwinding(const auto& transport, std::string_view own) noexcept {
  failure f{.code = errc::peer_failed, .rank = transport.rank(), .peer = transport.rank(), .text = own};
  const auto cause = error::in_flight();
  const int cause_rank = cause ? rank_of(transport, cause->caused_by) : f.rank;
  if (cause_rank == f.rank || !is_of_another(*cause)) return f;
  if (cause_rank >= 0) f.code = cause->code;
  f.peer = cause_rank;
  f.caused_by = cause->caused_by;
  f.text = "reports the failure of another communicator";
  try {
    std::string text = "reports the failure of another communicator";
    if (cause_rank >= 0 && cause->peer >= 0)
      core::append_words(text, {", where rank ", cause_rank, " is rank ", cause->peer});
    else if (cause_rank >= 0) core::append_words(text, {", because of rank ", cause_rank});
    else core::append_words(text, {" (ranks as they are numbered there)"});
    core::append_words(text, {": ", sentence(*cause)});
    f.text = text;
  } catch (...) {  // NOLINT: no memory for a longer text
  }
  return f;
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
