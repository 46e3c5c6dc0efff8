// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The comparison of training curves: rounding errors are within the tolerance, larger differences are not.
#include "report.hpp"

#include "support/catch.hpp"

#include <cmath>
#include <limits>

namespace {

std::vector<double> curve(std::size_t steps = 400) {
  std::vector<double> result(steps);
  for (std::size_t i = 0; i < steps; ++i) result[i] = 2.3 * std::exp(-double(i) / 80) + 0.03;
  return result;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return digits::compare(a, b, 4).within_tolerance();
}

}  // namespace

TEST_CASE("curves: equal curves, and curves equal up to rounding, are the same") {
  auto rounded = curve();
  CHECK(same(curve(), rounded));
  for (double& loss : rounded) loss *= 1 + 1e-6;
  CHECK(same(curve(), rounded));
}

TEST_CASE("curves: a difference in an early step or a late epoch, or a NaN, is not the same") {
  auto early = curve(), late = curve(), none = curve();
  early[3] += 1e-3;
  CHECK(!same(curve(), early));
  for (std::size_t i = 300; i < 400; ++i) late[i] *= 1.1;
  CHECK(!same(curve(), late));
  none[200] = std::numeric_limits<double>::quiet_NaN();
  CHECK(!same(curve(), none));
  CHECK(!same(none, none));
}

TEST_CASE("curves: a single late step may differ more, because differences grow during training") {
  auto late = curve();
  late[350] *= 1.05;
  CHECK(same(curve(), late));
}
