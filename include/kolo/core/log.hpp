// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// KOLO_LOG=info or trace in the environment: logs choices and their reasons, ranks that join, and failures; a line each
// on standard error.
#pragma once

#include <kolo/core/text.hpp>

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::core {

enum log_level { log_nothing, log_info, log_trace };

[[gnu::cold, gnu::noinline]] inline log_level log_level_of(const char* setting) {
  const std::string_view word = setting != nullptr ? setting : "";
  return word == "trace" ? log_trace : word == "info" ? log_info : log_nothing;
}
/// The level that the program was started with. Checked where something is chosen, made or has failed, never in a
/// cached call.
inline const log_level logs = log_level_of(std::getenv("KOLO_LOG"));

/// One write, so that lines of several ranks do not mix.
[[gnu::cold, gnu::noinline]] inline void log_line(int rank, std::initializer_list<word> words) {
  std::string line = text_of({"kolo: rank ", rank, ": "});
  append_words(line, words);
  append_words(line, {"\n"});
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kolo::inline KOLO_ABI::detail::core
