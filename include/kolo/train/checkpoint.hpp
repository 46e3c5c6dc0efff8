// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Saves the values of all parameters in one file, and reads them back: a save that fails leaves the previous file as it
// was.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/train/replace_file.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

inline constexpr char checkpoint_mark[] = "kolo checkpoint\n";
inline constexpr std::size_t checkpoint_mark_bytes = sizeof(checkpoint_mark) - 1;  // 16

template <class Range>
std::vector<std::span<std::byte>> dense_values_of(Range& parameters) {
  std::vector<std::span<std::byte>> all;
  each_range(parameters, [&](auto& range) {
    for (const auto& values : values_of(range)) {
      static_assert(
          ContiguousView<std::remove_cvref_t<decltype(values)>>,
          "kolo: a checkpoint holds dense tensors; these .value have gaps: copy them into a std::vector first");
      all.push_back(std::as_writable_bytes(values));
    }
  });
  return all;
}

/// What stands before the values: the mark, how many tensors, how many bytes of each.
inline std::vector<std::byte> checkpoint_head(std::span<const std::span<std::byte>> tensors) {
  std::vector<std::uint64_t> numbers{tensors.size()};
  for (const auto& t : tensors) numbers.push_back(t.size_bytes());
  const auto bytes = std::as_bytes(std::span{numbers});
  std::vector<std::byte> head(checkpoint_mark_bytes + bytes.size());
  std::memcpy(head.data(), checkpoint_mark, checkpoint_mark_bytes);
  std::memcpy(head.data() + checkpoint_mark_bytes, bytes.data(), bytes.size());
  return head;
}

}  // namespace detail::train

/// Writes `path` anew: 16 bytes "kolo checkpoint\n", then as 64-bit numbers how many parameters and the bytes of each,
/// then the values one after another, all in this machine's byte order. One rank is enough: see `on_root`. Errors:
/// those of `replace_file`.
template <AnyParameters Range>
void save_checkpoint(const std::string& path, Range&& parameters) {
  const auto tensors = detail::train::dense_values_of(parameters);
  const std::vector<std::byte> head = detail::train::checkpoint_head(tensors);
  std::vector<std::span<const std::byte>> chunks{head};
  chunks.insert(chunks.end(), tensors.begin(), tensors.end());
  detail::train::replace_file(path, chunks);
}

/// Sets the values to what `save_checkpoint` wrote for parameters of the same number and sizes.
/// Errors: `invalid_argument` if `path` is not such a file, `system` if it cannot be read; the values are then as they
/// were, unless the disk failed in the middle.
template <AnyParameters Range>
void load_checkpoint(const std::string& path, Range&& parameters) {
  const auto refuse = [&](errc code, const std::string& reason) { throw error{code, reason + ": " + path}; };
  const auto file = detail::train::opened(path);
  const auto read = [&](std::span<std::byte> bytes) { return std::fread(bytes.data(), 1, bytes.size(), file.get()); };

  const auto tensors = detail::train::dense_values_of(parameters);
  const std::vector<std::byte> expected = detail::train::checkpoint_head(tensors);
  std::vector<std::byte> head(expected.size());
  if (read(head) < detail::train::checkpoint_mark_bytes ||
      std::memcmp(head.data(), expected.data(), detail::train::checkpoint_mark_bytes) != 0)
    refuse(errc::invalid_argument, "not a checkpoint");
  if (head != expected)
    refuse(errc::invalid_argument, "a checkpoint of another model: number or sizes of the parameters differ");

  std::size_t total = head.size();
  for (const auto& t : tensors) total += t.size_bytes();
  struct stat actual {};
  if (::fstat(::fileno(file.get()), &actual) != 0) refuse(errc::system, std::strerror(errno));
  if (const auto size = static_cast<std::size_t>(actual.st_size); size != total)
    refuse(errc::invalid_argument,
           "a damaged checkpoint, " + std::to_string(size) + " bytes instead of " + std::to_string(total));
  for (const auto& t : tensors)
    if (read(t) != t.size_bytes()) refuse(errc::system, "cannot be read to its end");
}

}  // namespace kolo::inline KOLO_ABI
