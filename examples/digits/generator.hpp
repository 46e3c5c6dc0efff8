// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renders digits that look handwritten: strokes are bent, rotated, sheared, shifted, thick or thin, and noisy.
#pragma once

#include "dataset.hpp"

#include <cstddef>
#include <cstdint>

namespace digits {

/// `count` digits, each a function of the seed and its index alone.
dataset generate(std::size_t count, std::uint64_t seed);

/// A training set and a test set of different digits.
split generate_split(std::size_t train, std::size_t test, std::uint64_t seed);

}  // namespace digits
