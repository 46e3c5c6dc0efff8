// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A parameter references its matrices: a temporary that owns its elements would be destroyed before it is used. A block of another matrix may be temporary.
// expect: kolo: .*temporar
#include <kolo/adapt/eigen.hpp>

#include <vector>

/// The members of Eigen's matrices that kolo uses.
struct matrix {
  using PlainObject = matrix;
  static constexpr bool IsRowMajor = false, IsVectorAtCompileTime = false;
  std::vector<float> elements = std::vector<float>(6);
  float* data() { return elements.data(); }
  const float* data() const { return elements.data(); }
  long size() const { return 6; }
  long rows() const { return 2; }
  long cols() const { return 3; }
  long outerStride() const { return 2; }
  long innerStride() const { return 1; }
  long innerSize() const { return 2; }
};

/// A temporary that references a matrix, which owns the elements.
struct part : matrix {
  using PlainObject = matrix;
  explicit part(matrix& of) : whole{of.data()} {}
  float* whole;
  float* data() const { return whole; }
};

int main() {
  matrix weight, gradient;
#ifdef KOLO_WRONG
  const kolo::eigen_parameter one{weight, matrix{}, "weight"};
#else
  const kolo::eigen_parameter one{weight, part{gradient}, "weight"};
#endif
  return one.value.size() == 6 && one.gradient.data() == gradient.data() ? 0 : 1;
}
