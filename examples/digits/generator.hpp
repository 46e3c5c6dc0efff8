// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renders handwritten-looking digits: strokes that are bent, rotated, sheared, shifted, thick or thin, and noisy.
#pragma once

#include "dataset.hpp"

#include <cstddef>
#include <cstdint>

namespace digits {

/// `count` digits, each a function of seed and its position alone.
dataset generate(std::size_t count, std::uint64_t seed);

/// A data set to learn from and another, of other digits, to judge by.
split generate_split(std::size_t train, std::size_t test, std::uint64_t seed);

}  // namespace digits
