// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The training text: this repository's, as tokens of 96 characters, and the batches of a step.
#pragma once

#include <kolo/train/data.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

/// The README and all headers below include/, sorted by name. Throws std::runtime_error if there is too little text.
std::string text_of(const std::string& repository);

/// Tokens are the printable characters and the newline; other characters become a question mark.
inline int number_of(char c) { return c == '\n' ? 95 : c >= ' ' && c <= '~' ? c - ' ' : '?' - ' '; }
inline char character(int number) { return number == 95 ? '\n' : char(' ' + number); }

inline std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> all;
  for (const char c : text) all.push_back(number_of(c));
  return all;
}

/// Sequences, and the character that follows each of theirs.
struct batch {
  std::vector<int> tokens{}, targets{};
};

/// The sequences first, first + 1 ... of a step. All ranks together get the same ones, whatever the number of ranks.
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
