// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Saves the values of all parameters in one file, and loads them; a save that fails leaves the previous file unchanged.
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
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

/// The 16 bytes at the head of a file; version 0.1 wrote the second.
inline constexpr std::string_view checkpoint_mark = "kolo checkpoint2", old_checkpoint_mark = "kolo checkpoint\n";

struct dense_values {
  std::span<std::byte> bytes;
  int digits;  ///< binary digits of an element: float 24, bfloat16 8, without numeric_limits 0
};

std::vector<dense_values> dense_values_of(auto& parameters) {
  std::vector<dense_values> all;
  train::each_range(parameters, [&](auto& range) {
    for (const auto& values : kolo::values_of(range)) {
      using view = std::remove_cvref_t<decltype(values)>;
      static_assert(
          ContiguousView<view>,
          "kolo: a checkpoint holds dense tensors, and these .value have gaps: copy them into a std::vector first");
      all.push_back({std::as_writable_bytes(values), std::numeric_limits<view_element_t<view>>::digits});
    }
  });
  return all;
}

/// The numbers between mark and values: how many tensors, the bytes of each, and the digits, which version 0.1 did not
/// write.
inline std::vector<std::uint64_t> checkpoint_head(std::span<const dense_values> tensors, std::string_view mark) {
  std::vector<std::uint64_t> numbers{tensors.size()};
  for (const auto& t : tensors) numbers.push_back(t.bytes.size());
  for (const auto& t : tensors)
    if (mark == checkpoint_mark) numbers.push_back(std::uint64_t(t.digits));
  return numbers;
}

}  // namespace detail::train

/// Replaces the file `path`: 16 bytes "kolo checkpoint2", then as 64-bit numbers how many parameters, the bytes of
/// each, and how many binary digits its elements have, then the values in order, all in this machine's byte order. Not
/// collective: one rank is enough, see `on_root`. Errors: those of `replace_file`.
void save_checkpoint(const std::string& path, AnyParameters auto&& parameters) {
  const auto tensors = detail::train::dense_values_of(parameters);
  const auto head = detail::train::checkpoint_head(tensors, detail::train::checkpoint_mark);
  std::vector<std::span<const std::byte>> chunks{std::as_bytes(std::span{detail::train::checkpoint_mark}),
                                                 std::as_bytes(std::span{head})};
  for (const auto& t : tensors) chunks.push_back(t.bytes);
  detail::train::replace_file(path, chunks);
}

/// Sets the values to what `save_checkpoint` wrote for parameters of the same number, sizes and elements.
/// Errors: `invalid_argument` if `path` is not such a file, `system` if it cannot be read; the values are then
/// unchanged, unless the disk failed during the read.
void load_checkpoint(const std::string& path, AnyParameters auto&& parameters) {
  const auto refuse = [&](errc code, const std::string& reason) { throw error{code, reason + ": " + path}; };
  const auto file = detail::train::opened(path);
  const auto read = [&](std::span<std::byte> bytes) { return std::fread(bytes.data(), 1, bytes.size(), file.get()); };

  const auto tensors = detail::train::dense_values_of(parameters);
  std::string mark(detail::train::checkpoint_mark.size(), ' ');
  read(std::as_writable_bytes(std::span{mark}));
  if (mark != detail::train::checkpoint_mark && mark != detail::train::old_checkpoint_mark)
    refuse(errc::invalid_argument, "not a checkpoint");
  const auto expected = detail::train::checkpoint_head(tensors, mark);
  std::vector<std::uint64_t> head(expected.size());
  read(std::as_writable_bytes(std::span{head}));
  if (head != expected)
    refuse(errc::invalid_argument, "a checkpoint of another model: number, sizes or elements of the parameters differ");

  std::size_t total = mark.size() + std::span{head}.size_bytes();
  for (const auto& t : tensors) total += t.bytes.size();
  struct stat actual {};
  if (::fstat(::fileno(file.get()), &actual) != 0) refuse(errc::system, std::strerror(errno));
  if (const auto size = std::size_t(actual.st_size); size != total)
    refuse(errc::invalid_argument,
           "a damaged checkpoint, " + std::to_string(size) + " bytes instead of " + std::to_string(total));
  for (const auto& t : tensors)
    if (read(t.bytes) != t.bytes.size()) refuse(errc::system, "cannot be read to its end");
}

}  // namespace kolo::inline KOLO_ABI
