// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the adapter of Eigen's matrices, with a matrix type that has the members that the adapter uses.
#include <kolo/adapt/eigen.hpp>

#include "train/model.hpp"

using testing::contains, testing::words_of;

namespace {

struct matrix {
  static constexpr bool IsRowMajor = false, IsVectorAtCompileTime = false;
  float* first;
  long height, width, between_columns, between_rows = 1;
  float* data() const { return first; }
  long size() const { return height * width; }
  long rows() const { return height; }
  long cols() const { return width; }
  long outerStride() const { return between_columns; }
  long innerStride() const { return between_rows; }
  long innerSize() const { return height; }
};

std::string refusal(matrix value, matrix gradient) {
  return words_of([&] { kolo::eigen_parameter{value, gradient, "weight"}; });
}

}  // namespace

int main() {
  float x[24] = {}, y[24] = {};
  matrix value{x, 3, 4, 3}, gradient{y, 3, 4, 3}, empty{x, 3, 0, 7};
  const kolo::eigen_parameter all{value, gradient, "weight"};
  if (all.name != "weight" || all.value.data() != x || all.gradient.data() != y || all.value.size() != 12 ||
      all.gradient.size() != 12)
    return 1;
  if (!contains(refusal(value, {y, 4, 3, 4}), "weight is 3 x 4, but its gradient 4 x 3")) return 1;
  if (!contains(refusal(value, {y, 3, 3, 3}), "3 x 3") || !contains(refusal({x, 2, 4, 2}, gradient), "2 x 4")) return 1;
  if (!contains(refusal({x, 3, 4, 6}, gradient), "weight has gaps") ||
      !contains(refusal(value, {y, 3, 4, 6}), "weight has gaps"))
    return 1;
  if (!contains(refusal({x, 3, 4, 6, 2}, gradient), "weight has gaps") ||
      !contains(refusal({x, 3, 4, 3, 2}, gradient), "weight has gaps"))
    return 1;
  return refusal(empty, empty).empty() ? 0 : 1;
}
