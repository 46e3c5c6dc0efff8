// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the MNIST files (IDX format). An error names the file and what is wrong with it.
#pragma once

#include "dataset.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace digits {
namespace detail {

/// An IDX file of bytes: 0 0 8 and the number of dimensions, each dimension as a big-endian 32-bit number, then the bytes.
struct idx_file {
  std::vector<std::uint32_t> dimensions;
  std::vector<std::uint8_t> bytes;
};

[[noreturn]] inline void complain(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ' ' + what);
}

inline std::string hexadecimal(std::uint32_t number) {
  std::string text = "0x00000000";
  for (std::size_t i = text.size(); i-- > 2; number >>= 4) text[i] = "0123456789abcdef"[number & 15];
  return text;
}

inline std::string whole(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", number);
  return text;
}

/// The file `name` in `directory`; also with a dot before "idx", as some archives spell it.
inline std::filesystem::path find_idx(const std::filesystem::path& directory, std::string name) {
  const auto dashed = directory / name;
  if (std::filesystem::exists(dashed)) return dashed;
  name[name.find("-idx")] = '.';
  if (std::filesystem::exists(directory / name)) return directory / name;
  if (std::filesystem::exists(dashed.string() + ".gz"))
    complain(dashed.string() + ".gz", "is still compressed: unpack it with gunzip");
  complain(dashed,
           "does not exist. The MNIST directory must contain train-images-idx3-ubyte, train-labels-idx1-ubyte, "
           "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, unpacked");
}

inline std::uint32_t read_number(std::istream& in, const std::filesystem::path& path) {
  unsigned char b[4] = {};
  if (!in.read(reinterpret_cast<char*>(b), sizeof b)) complain(path, "is truncated: it ends within its header");
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | std::uint32_t{b[3]};
}

inline idx_file read_idx(const std::filesystem::path& path, std::uint32_t dimensions) {
  std::ifstream in{path, std::ios::binary};
  if (!in || !std::filesystem::is_regular_file(path)) complain(path, "cannot be read");
  const std::uint32_t magic = read_number(in, path), expected_magic = 0x800 + dimensions;
  if (magic != expected_magic)
    complain(path, "begins with " + hexadecimal(magic) + " instead of " + hexadecimal(expected_magic) +
                       ": it is not an IDX file of " + (dimensions == 3 ? "images" : "labels"));

  idx_file file;
  double announced = 1;  // as a double: a damaged header may announce more than any integer
  for (std::uint32_t i = 0; i < dimensions; ++i) announced *= file.dimensions.emplace_back(read_number(in, path));
  const double present = double(std::filesystem::file_size(path)) - 4.0 * (dimensions + 1);
  if (present != announced)
    complain(path,
             (present < announced ? "is truncated: its header announces " : "is too long: its header announces ") +
                 whole(announced) + " bytes, but " + whole(present) + " follow");
  file.bytes.resize(std::size_t(announced));
  if (!in.read(reinterpret_cast<char*>(file.bytes.data()), std::streamsize(announced)))
    complain(path, "cannot be read to its end");
  return file;
}

inline dataset read_images_and_labels(const std::filesystem::path& images, const std::filesystem::path& labels) {
  idx_file image = read_idx(images, 3), label = read_idx(labels, 1);
  const auto count = image.dimensions[0], rows = image.dimensions[1], columns = image.dimensions[2];
  if (count == 0) complain(images, "contains no images");
  if (rows != side || columns != side)
    complain(images, "contains images of " + std::to_string(rows) + " x " + std::to_string(columns) +
                         " pixels instead of 28 x 28");
  if (label.dimensions[0] != count)
    complain(images, "contains " + std::to_string(count) + " images, but " + labels.string() + " contains " +
                         std::to_string(label.dimensions[0]) + " labels");
  for (std::size_t i = 0; i < count; ++i)
    if (label.bytes[i] >= classes)
      complain(labels, "says that image " + std::to_string(i) + " shows a " + std::to_string(label.bytes[i]) +
                           ", which is not a digit");
  return {std::move(image.bytes), std::move(label.bytes)};
}

}  // namespace detail

/// Reads MNIST's training and test set, with any number of images.
inline split read_mnist(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) detail::complain(directory, "is not a directory");
  const auto read = [&](const std::string& part) {
    const auto images = detail::find_idx(directory, part + "-images-idx3-ubyte");
    return detail::read_images_and_labels(images, detail::find_idx(directory, part + "-labels-idx1-ubyte"));
  };
  return {read("train"), read("t10k")};
}

}  // namespace digits
