// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Eigen: the inverse of a matrix.
#include <Eigen/Dense>
#include <iostream>

int main() {
  const Eigen::MatrixXd some = Eigen::MatrixXd::Random(20, 20);
  std::cout << some.inverse().norm() << '\n';
}
