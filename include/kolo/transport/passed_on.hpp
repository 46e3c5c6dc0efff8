// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank says when an exception destroys what others wait for: it may pass on what failed on another communicator.
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/sentences.hpp>
#include <kolo/transport/transport.hpp>

#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::transport {

/// Of a rank that its transport cannot tell from others.
inline constexpr rank_identity nobody_known{.among = ~std::uint64_t{0}};

inline bool is_known(const rank_identity& who) { return who != rank_identity{} && who != nobody_known; }

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

/// With the identity of its peer, a rank of `transport`; unless somebody who may number ranks otherwise has said that.
template <class T>
failure with_culprit(const T& transport, failure f) {
  if (f.peer < 0 || f.culprit != rank_identity{}) return f;
  f.culprit = nobody_known;
  if constexpr (Identifiable<T>)
    if (f.peer < transport.size()) f.culprit = transport.who(f.peer);
  return f;
}

/// Did another rank than the one that has got this error cause it, also where it is not known who that was?
inline bool is_of_another(const failure& f) {
  switch (f.code) {
    case errc::peer_died:
    case errc::peer_failed:
    case errc::peer_left: return true;
    case errc::timeout:
    case errc::mismatch: return f.rank >= 0 && f.rank != f.peer;
    default: return is_known(f.culprit);
  }
}

/// What this rank says on `transport` while an exception unwinds its stack. Where that is another communicator's
/// failure: what failed there, and the culprit, if it is a rank here, else nobody. Where this rank is the culprit, or
/// has thrown what is not kolo's: `own`, and this rank.
template <class T>
[[gnu::cold, gnu::noinline]] failure said_in_unwinding(const T& transport, std::string_view own) noexcept {
  failure f;
  f.code = errc::peer_failed;
  f.rank = f.peer = transport.rank();
  f.text = own;
  const auto cause = error::in_flight();
  const int culprit = cause ? rank_of(transport, cause->culprit) : f.rank;
  if (culprit == f.rank || !is_of_another(*cause)) return f;
  if (culprit >= 0) f.code = cause->code;
  f.peer = culprit;
  f.culprit = cause->culprit;
  f.text = "passes on what ended another communicator";
  try {
    std::string text = "passes on what ended another communicator";
    if (culprit >= 0 && cause->peer >= 0)
      core::append_words(text, {", where rank ", culprit, " is rank ", cause->peer});
    else if (culprit >= 0) core::append_words(text, {", because of rank ", culprit});
    else core::append_words(text, {" (ranks as they are numbered there)"});
    core::append_words(text, {": ", sentence(*cause)});
    f.text = text;
  } catch (...) {  // NOLINT: no memory for more words
  }
  return f;
}

}  // namespace kolo::inline KOLO_ABI::detail::transport
