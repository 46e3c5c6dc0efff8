// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The element types, and the values in them: small whole numbers, so that every sum is exact.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo_bench {

/// A user's type: 16 bytes of statistics.
struct tally {
  float sum, least, greatest;
  std::int32_t count;
};

/// A user's operator.
struct merge {
  static constexpr bool commutative = true;
  tally operator()(const tally& a, const tally& b) const {
    return {a.sum + b.sum, a.least < b.least ? a.least : b.least, a.greatest < b.greatest ? b.greatest : a.greatest,
            a.count + b.count};
  }
};

inline std::size_t element_bytes(const std::string& element) {
  if (element == "float") return 4;
  if (element == "bfloat16") return 2;
  if (element == "tally") return sizeof(tally);
  throw std::invalid_argument{"there is no element called " + element};
}

/// The element at an index: the index modulo 7, plus 1, times a factor; `least` and `greatest` times factors of their own.
class pattern {
 public:
  static constexpr std::size_t period =
      7 * 256;  ///< bytes: whole periods of 7 elements of 2, 4 and 16 bytes; below what memcpy handles specially

  pattern(const std::string& element, int factor, int least, int greatest)
      : width_{element_bytes(element)}, bytes_(2 * period) {
    for (std::size_t i = 0; i < bytes_.size() / width_; ++i) {
      const int k = static_cast<int>(i % 7) + 1;
      const auto number = static_cast<float>(k * factor);
      if (element == "tally") {
        const tally t{number, static_cast<float>(k * least), static_cast<float>(k * greatest), k * factor};
        std::memcpy(&bytes_[i * width_], &t, width_);
      } else if (element == "bfloat16") {
        std::memcpy(&bytes_[i * width_], reinterpret_cast<const char*>(&number) + 2, width_);  // exact up to 256
      } else {
        std::memcpy(&bytes_[i * width_], &number, width_);
      }
    }
  }

  /// Writes elements `first`, `first` + 1, ... of the pattern.
  void write(std::byte* to, std::size_t bytes, std::size_t first) const {
    const std::byte* from = &bytes_[first % 7 * width_];
    for (std::size_t at = 0; at < bytes; at += period) std::memcpy(to + at, from, std::min(period, bytes - at));
  }
  bool stands_in(const std::byte* in, std::size_t bytes, std::size_t first) const {
    const std::byte* from = &bytes_[first % 7 * width_];
    for (std::size_t at = 0; at < bytes; at += period)
      if (std::memcmp(in + at, from, std::min(period, bytes - at)) != 0) return false;
    return true;
  }

 private:
  std::size_t width_;
  std::vector<std::byte> bytes_;
};

/// Reads all of it, as the user of a result does.
inline void read_through(const std::byte* from, std::size_t bytes) {
  std::uint64_t all = 0, word = 0;
  for (std::size_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
    std::memcpy(&word, from + at, sizeof(word));
    all ^= word;
  }
  if (bytes % sizeof(word) != 0) std::memcpy(&word, from + bytes / sizeof(word) * sizeof(word), bytes % sizeof(word));
  all ^= word;
  asm volatile("" : : "r"(all));
}

}  // namespace kolo_bench
