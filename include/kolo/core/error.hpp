// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one exception of the library, and the record of a failure that ranks hand on to each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kolo::inline v0 {

enum class errc : std::int32_t {
  timeout = 1,       ///< a peer is late: the deadline passed
  peer_died,         ///< a peer's process ended without a word
  peer_failed,       ///< a peer threw: its communicator was destroyed by an exception, or refused its arguments
  peer_left,         ///< a peer destroyed its communicator while others still wait for it
  mismatch,          ///< ranks disagree about what they are doing
  invalid_argument,  ///< refused here, before any data moved
  out_of_resources,  ///< memory, descriptors or space, with the amount needed
  system             ///< an operating-system call failed
};

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

/// What went wrong, where: plain bytes, so that it travels between processes. Ranks are those of the communicator.
struct failure {
  errc code = errc::system;
  std::int32_t rank = -1;      ///< who noticed it
  std::int32_t peer = -1;      ///< who caused it; -1: nobody in particular
  std::int32_t round = -1;     ///< in which round of the algorithm; -1: before the first
  std::uint64_t sequence = 0;  ///< the how-manieth operation of the communicator, from 1; 0: none
  std::int64_t waited_ns = 0;
  fixed_text<32> operation;
  fixed_text<256> text;        ///< one sentence, without the place
};

/// `what()` says all that the fields say: "kolo: allreduce #12, round 3, rank 0: rank 2 died".
class error : public std::runtime_error {
 public:
  explicit error(const failure& f, std::size_t buffers_in_use = 0) : std::runtime_error{sentence(f, buffers_in_use)}, failure_{f}, in_use_{buffers_in_use} {}
  error(errc code, const std::string& text) : std::runtime_error{"kolo: " + text} {
    failure_.code = code;
    failure_.text = text;
  }

  errc code() const noexcept { return failure_.code; }
  int rank() const noexcept { return failure_.rank; }
  int peer() const noexcept { return failure_.peer; }
  int round() const noexcept { return failure_.round; }
  std::uint64_t sequence() const noexcept { return failure_.sequence; }
  std::string_view operation() const noexcept { return failure_.operation; }
  std::chrono::nanoseconds elapsed() const noexcept { return std::chrono::nanoseconds{failure_.waited_ns}; }
  const failure& cause() const noexcept { return failure_; }
  /// Pieces of this rank's buffers that another one may still write to: do not use or free them until `buffers_in_use()` of the communicator is 0.
  std::size_t buffers_in_use() const noexcept { return in_use_; }

 private:
  static std::string sentence(const failure& f, std::size_t in_use) {
    std::string s = "kolo: ";
    if (const std::string_view operation = f.operation; !operation.empty()) {
      s += operation;
      if (f.sequence > 0) s += " #" + std::to_string(f.sequence);
      if (f.round >= 0) s += ", round " + std::to_string(f.round);
      s += ", ";
    }
    if (f.rank >= 0) s += "rank " + std::to_string(f.rank) + ": ";
    s += std::string_view{f.text};
    if (in_use > 0) s += "; others may still write to " + std::to_string(in_use) + " pieces of this rank's buffers: do not use or free them yet";
    return s;
  }

  failure failure_;
  std::size_t in_use_ = 0;
};

}  // namespace kolo::inline v0
