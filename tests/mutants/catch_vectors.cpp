// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in loops that are compiled twice: for the program's target, and for a processor with AVX2.
// optimised
#include <kolo/reduce/kernel.hpp>
#include <kolo/view/float16.hpp>

#include <vector>

namespace {

using kolo::float16;

/// float += float16 from the wire, for several chunks of elements and a rest.
bool combines() {
  static const auto op = kolo::wire<float16>(kolo::sum);
  const kolo::kernel kernel = kolo::make_kernel<float>(op);
  std::vector<float> mine(1003), sum(1003);
  std::vector<float16> theirs(1003);
  for (std::size_t i = 0; i < 1003; ++i) {
    mine[i] = static_cast<float>(i);
    theirs[i] = float16(3 * static_cast<float>(i % 100));
  }
  const kolo::source sources[] = {{reinterpret_cast<const std::byte*>(mine.data()), false},
                                  {reinterpret_cast<const std::byte*>(theirs.data()), true}};
  kernel.combine(kernel.op, reinterpret_cast<std::byte*>(sum.data()), sources, 2, 1003, 0);
  for (std::size_t i = 0; i < 1003; ++i)
    if (sum[i] != static_cast<float>(i) + 3 * static_cast<float>(i % 100)) return false;
  return true;
}

bool converts_nan() {
  static const auto op = kolo::wire<float16>(kolo::sum);
  const kolo::kernel kernel = kolo::make_kernel<float>(op);
  const std::vector<float> from(1003, __builtin_nanf("7"));
  std::vector<float16> wire(1003);
  kernel.to_wire(reinterpret_cast<std::byte*>(wire.data()), reinterpret_cast<const std::byte*>(from.data()), nullptr,
                 1003);
  for (const float16 x : wire)
    if (x.bits() != 0xffff) return false;
  return true;
}

}  // namespace

int main() { return combines() && converts_nan() ? 0 : 1; }
