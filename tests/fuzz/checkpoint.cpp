// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes checkpoints: a file is refused, or it sets exactly the values.
#include <kolo/train/checkpoint.hpp>

#include <array>
#include <span>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace {
struct tensor {
  std::span<float> value, gradient;
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::file file{data, size};
  std::array<float, 3> weight{}, weight_gradient{};
  std::array<float, 1> bias{}, bias_gradient{};
  std::vector<tensor> parameters{{weight, weight_gradient}, {bias, bias_gradient}};
  try {
    kolo::load_checkpoint(file.path(), parameters);
    fuzz::expect(size == 16 + 5 * 8 + 16 || size == 16 + 3 * 8 + 16);  // the latter: of version 0.1
  } catch (const kolo::error& e) {
    fuzz::expect(e.code() == kolo::errc::invalid_argument && weight == std::array<float, 3>{} &&
                 bias == std::array<float, 1>{});
  }
  return 0;
}
