// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the MNIST files of the digits example.
#include "../../examples/digits/idx.hpp"

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto half = size > 0 ? std::min<std::size_t>(data[0], size - 1) : 0;  // labels, then images
  const std::uint8_t* const begin = data + (size > 0 ? 1 : 0);
  const fuzz::file labels{begin, half}, images{begin + half, size - half - (size > 0 ? 1 : 0)};
  try {
    const auto all = digits::detail::read_images_and_labels(images.path(), labels.path());
    (void)all;
  } catch (const std::runtime_error&) {
  }
  return 0;
}
