// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one exception of the library, and the record of a failure that ranks pass on to each other.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/text.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI {

/// Why a call failed: `kolo::error::code()`.
enum class errc : std::int32_t {
  timeout = 1,       ///< a peer is late: the deadline passed
  peer_died,         ///< a peer's process ended without leaving
  peer_failed,       ///< a peer threw: its communicator was destroyed by an exception, or refused its arguments
  peer_left,         ///< a peer destroyed its communicator while others still wait for it
  mismatch,          ///< ranks make different calls
  invalid_argument,  ///< rejected here, before any data moved
  out_of_resources,  ///< memory, descriptors or space, with the amount needed
  system             ///< an operating-system call failed
};

/// The code in words, "peer died" for example, as in messages and logs.
constexpr std::string_view name(errc code) {
  switch (code) {
    case errc::timeout: return "timeout";
    case errc::peer_died: return "peer died";
    case errc::peer_failed: return "peer failed";
    case errc::peer_left: return "peer left";
    case errc::mismatch: return "mismatch";
    case errc::invalid_argument: return "invalid argument";
    case errc::out_of_resources: return "out of resources";
    case errc::system: return "system";
  }
  return "unknown";
}

/// The kind of work in which a rank found a failure.
enum class origin : std::int32_t {
  call,  ///< a collective, or another function that the user called
  setup  ///< the transport's own exchange, which makes a group, a transport or common memory
};

/// Text of at most N - 1 characters that can lie in shared memory; longer text is cut.
template <std::size_t N>
struct fixed_text {
  char characters[N] = {};

  fixed_text() = default;
  template <std::convertible_to<std::string_view> Text>
  fixed_text(const Text& from) {  // NOLINT: text is text
    const std::string_view text = from;
    std::memcpy(characters, text.data(), std::min(text.size(), N - 1));
  }
  operator std::string_view() const { return {characters, ::strnlen(characters, N)}; }  // NOLINT
};

/// Identifies a rank, whatever its number on a communicator. Communicators over one kind of transport give one rank the
/// same identity, and no other rank that one.
struct rank_identity {
  std::uint64_t among = 0;  ///< a process, or another scope of numbers, set by the transport; 0: not set
  std::uint64_t number = 0, part = 0;
  friend constexpr bool operator==(const rank_identity&, const rank_identity&) = default;
};

/// A failure and its place: plain bytes, so that it travels between processes. Ranks are those of the communicator.
struct failure {
  errc code = errc::system;        ///< the kind of failure
  origin found_in = origin::call;  ///< a call, or the transport's own exchange
  std::int32_t rank = -1;          ///< the rank that detected it
  std::int32_t peer = -1;          ///< the rank that caused it; -1: none in particular
  std::int32_t round = -1;         ///< round of the algorithm; -1: before the first
  std::uint64_t sequence = 0;      ///< 1-based index of the operation on this communicator; 0: no operation
  std::int64_t waited_ns = 0;      ///< how long the rank had waited, in nanoseconds
  fixed_text<32> operation{};      ///< the name of the call
  fixed_text<256> text{};          ///< one sentence, without the place
  rank_identity caused_by{};       ///< the rank that caused it, as other communicators identify it, too
};

/// All fields as text: "allreduce #12, round 3, rank 0: rank 2 died".
[[gnu::cold, gnu::noinline]] inline std::string sentence(const failure& f) {
  std::string s;
  if (const std::string_view operation = f.operation; !operation.empty()) {
    detail::core::append_words(s, {operation});
    if (f.sequence > 0) detail::core::append_words(s, {" #", f.sequence});
    if (f.round >= 0) detail::core::append_words(s, {", round ", f.round});
    detail::core::append_words(s, {", "});
  }
  if (f.rank >= 0) detail::core::append_words(s, {"rank ", f.rank, ": "});
  detail::core::append_words(s, {std::string_view{f.text}});
  return s;
}

/// `what()` is "kolo: " and the sentence.
class error : public std::runtime_error {
 public:
  [[gnu::cold, gnu::noinline]] explicit error(const failure& f, std::size_t buffers_in_use = 0)
      : std::runtime_error{sentence(f, buffers_in_use)}, failure_{shared(f)}, in_use_{buffers_in_use} {
    mark_thrown();
  }
  [[gnu::cold, gnu::noinline]] error(errc code, const std::string& text)
      : std::runtime_error{detail::core::text_of({"kolo: ", text})}, failure_{shared({.code = code, .text = text})} {
    mark_thrown();
  }
  error(const error&) = default;  // and no move: there always is a cause
  error& operator=(const error&) = default;

  /// The kind of failure.
  errc code() const noexcept { return failure_->code; }
  int rank() const noexcept { return failure_->rank; }    ///< the rank that detected it
  int peer() const noexcept { return failure_->peer; }    ///< the rank that caused it; -1: none in particular
  int round() const noexcept { return failure_->round; }  ///< of the algorithm; -1: before the first
  /// The number of the call on its communicator, from 1; 0: none.
  std::uint64_t sequence() const noexcept { return failure_->sequence; }
  std::string_view operation() const noexcept { return failure_->operation; }  ///< for example "allreduce"
  /// How long the rank had waited.
  std::chrono::nanoseconds elapsed() const noexcept { return std::chrono::nanoseconds{failure_->waited_ns}; }
  const failure& cause() const noexcept { return *failure_; }  ///< all that is known
  /// Pieces of this rank's buffers that another rank may still read or write: do not use or free them until
  /// `buffers_in_use()` of the communicator is 0.
  std::size_t buffers_in_use() const noexcept { return in_use_; }

  /// The failure of the error that unwinds this thread's stack, for a destructor called by the unwinding; null if
  /// another exception does. C++ does not reveal the exception in flight: it is taken to be the error that this thread
  /// threw last, while that exists, since a handled error is destroyed.
  static std::shared_ptr<const failure> in_flight() noexcept {
    const auto* const last = last_of_this_thread();
    return last ? last->lock() : nullptr;
  }
  /// Call this before rethrowing an error that another thread, or this one some time ago, has caught. No effect during
  /// unwinding: an error thrown then is handled within it, and another exception is in flight.
  void mark_thrown() const noexcept {
    if (std::uncaught_exceptions() > 0) return;
    if (auto* const last = last_of_this_thread()) *last = failure_;
  }

  /// This thread has handled its error: an earlier one does not unwind it any more, even if the program still holds it.
  static void clear_thrown() noexcept {
    if (auto* const last = last_of_this_thread()) last->reset();
  }
  /// From now on this thread remembers no errors: for programs that run several ranks on one thread.
  static void remember_none() noexcept { remembers_none = true; }

 private:
  [[gnu::cold, gnu::noinline]] static std::shared_ptr<const failure> shared(const failure& f) {
    return detail::core::shared<const failure>(f);
  }

  /// Null when the thread is about to end.
  static std::weak_ptr<const failure>* last_of_this_thread() noexcept {
    struct owner {
      std::weak_ptr<const failure> last{};
      ~owner() { remembers_none = true; }
    };
    if (remembers_none) return nullptr;
    thread_local owner mine;
    return &mine.last;
  }
  static constinit inline thread_local bool remembers_none = false;

  static std::string sentence(const failure& f, std::size_t in_use) {
    if (in_use == 0) return detail::core::text_of({"kolo: ", kolo::sentence(f)});
    return detail::core::text_of({"kolo: ", kolo::sentence(f), "; others may still read or write ", in_use,
                                  " pieces of this rank's buffers: do not use or free them yet"});
  }

  std::shared_ptr<const failure> failure_;
  std::size_t in_use_ = 0;
};

namespace detail::core {

/// Throws a new error, with a sentence built of words.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_error(errc code, std::initializer_list<word> words) {
  throw error{code, text_of(words)};
}

/// "an exception ended `what`", with the words of the exception that is being handled.
[[gnu::cold, gnu::noinline]] inline fixed_text<256> ended_by_exception(const char* what) noexcept {
  fixed_text<256> text;
  const auto say = [&](const char* of, const char* words) {
    std::snprintf(text.characters, sizeof text.characters, "an exception ended %s%s%s", what, of, words);
  };
  say("", "");
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);  // none: a thread is cancelled
  } catch (const std::exception& e) {
    say(": ", e.what());
  } catch (...) {
  }
  return text;
}

/// Returns f(); if that throws, calls rollback() and rethrows.
template <class F>
decltype(auto) with_rollback(F&& f, auto rollback) {
  try {
    return f();
  } catch (...) {
    rollback();
    throw;
  }
}

/// Rethrows a stored error and marks it as in flight on this thread.
[[noreturn]] inline void rethrow(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const error& e) {
    e.mark_thrown();
    throw;
  }
}

}  // namespace detail::core

}  // namespace kolo::inline KOLO_ABI
