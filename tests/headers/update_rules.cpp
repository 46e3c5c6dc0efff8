// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled with -O1 -fsanitize=undefined -Werror: a loop that clang cannot vectorise then is no warning.
#include <kolo/train/update.hpp>

#include <array>
#include <span>

void update_all(std::span<float> value, std::span<const float> gradient, std::span<float> mean,
                std::span<float> square);
void update_all(std::span<float> value, std::span<const float> gradient, std::span<float> mean,
                std::span<float> square) {
  kolo::update::sgd{}(value, gradient, std::array<std::span<float>, 0>{}, 1);
  kolo::update::momentum{}(value, gradient, std::array{mean}, 1);
  kolo::update::nesterov{}(value, gradient, std::array{mean}, 1);
  kolo::update::adamw{}(value, gradient, std::array{mean, square}, 1);
}
