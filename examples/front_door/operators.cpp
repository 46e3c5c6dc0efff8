// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators: those of the library, a narrower type on the wire, and an operator of your own.
#include "expect.hpp"

#include <kolo/kolo.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

/// Four ranks contribute 1, 2, 3 and 4.
template <class T>
T combined(auto& comm, auto op) {
  std::vector<T> x(5, T(comm.rank() + 1));
  kolo::allreduce(comm, x, op);
  for (T value : x) expect(value == x[0], "all elements have the same result");
  return x[0];
}

void the_operators(auto& comm) {
  expect(combined<int>(comm, kolo::sum) == 10, "1 + 2 + 3 + 4 is 10");
  expect(combined<std::int64_t>(comm, kolo::product) == 24, "1 * 2 * 3 * 4 is 24");
  expect(combined<unsigned char>(comm, kolo::min) == 1, "the smallest is 1");
  expect(combined<float>(comm, kolo::max) == 4.0f, "the largest is 4");
  expect(combined<double>(comm, kolo::average) == 2.5, "average divides by the number of ranks");
  expect(combined<std::uint32_t>(comm, kolo::bit_and) == 0, "1 & 2 & 3 & 4 is 0");
  expect(combined<std::uint16_t>(comm, kolo::bit_or) == 7, "1 | 2 | 3 | 4 is 7");
  expect(combined<int>(comm, kolo::bit_xor) == 4, "1 ^ 2 ^ 3 ^ 4 is 4");
  expect(float(combined<kolo::float16>(comm, kolo::average)) == 2.5f, "elements of 16 bits are summed in float");
}

/// Floats in memory, half as many bytes on the wire.
void a_narrower_wire(auto& comm) {
  std::vector<float> gradient(1000, 0.001f * float(comm.rank()));
  kolo::allreduce(comm, gradient, kolo::wire<kolo::bfloat16>(kolo::average));
  for (float g : gradient) expect(std::abs(g - 0.0015f) < 0.0015f / 128, "bfloat16 keeps two or three digits");
}

struct interval {  // a type of your own; it must be trivially copyable
  double low, high;
};
struct hull {  // an operator of your own: callable with two elements
  constexpr interval operator()(interval a, interval b) const {
    return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
  }
};

void ones_own(auto& comm) {
  std::vector<interval> seen{{double(-comm.rank()), double(comm.rank())}};
  kolo::allreduce(comm, seen, hull{});
  expect(seen[0].low == -3 && seen[0].high == 3, "the hull covers the intervals of all ranks");

  int longest = comm.rank();
  kolo::allreduce(comm, std::span{&longest, 1}, [](int a, int b) { return a > b ? a : b; });
  expect(longest == 3, "a lambda is an operator too");
}

int main() {
  const int status = kolo::shm::launch(4, [](auto& comm) {
    the_operators(comm);
    a_narrower_wire(comm);
    ones_own(comm);
  });
  if (status == 0) std::puts("Eight operators, a wire of half the width and two user-defined operators gave the right results.");
  return status;
}
