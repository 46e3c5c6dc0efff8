// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text that is learned: this repository's own, as numbers of 96 characters, and the pieces of it that a step takes.
#pragma once

#include <kolo/train/data.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

/// The README and all headers below include/, in the order of their names. Errors: std::runtime_error where there are none.
std::string text_of(const std::string& repository);

/// The printable ones and the end of a line; everything else is a question mark.
inline int number_of(char c) { return c == '\n' ? 95 : c >= ' ' && c <= '~' ? c - ' ' : '?' - ' '; }
inline char character(int number) { return number == 95 ? '\n' : char(' ' + number); }

inline std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> all;
  for (const char c : text) all.push_back(number_of(c));
  return all;
}

/// Sequences, and what follows each of their characters.
struct batch {
  std::vector<int> tokens{}, targets{};
};

/// The sequences first, first + 1 ... of a step: the same in all for every number of ranks that shares them.
inline batch batch_of(std::span<const int> text, std::size_t places, std::uint64_t seed, std::size_t step,
                      std::size_t first, std::size_t count) {
  batch b;
  for (std::size_t i = first; i < first + count; ++i) {
    const std::size_t at = kolo::seed_for(seed, int(i), step) % (text.size() - places);
    for (std::size_t k = at; k < at + places; ++k) b.tokens.push_back(text[k]), b.targets.push_back(text[k + 1]);
  }
  return b;
}

}  // namespace gpt
