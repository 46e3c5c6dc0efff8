// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each operator on each integer type, in place and out of place.
#include "collectives/operators.hpp"
#include "support/catch.hpp"

using namespace testing;

TEMPLATE_TEST_CASE("each operator on one integer type of each size", "", signed char, unsigned short, int,
                   unsigned long) {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) { every_operator<TestType>(comm, wrong, "integers"); }) == "");
}

TEMPLATE_TEST_CASE("sum and max of the other integer types", "", unsigned char, short, unsigned, long) {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          const auto small = [](int r, std::size_t i) { return as<TestType>(number(r, i)); };
          const auto add = [](TestType a, TestType b) { return as<TestType>(wide(a) + wide(b)); };
          try_operator<TestType>(comm, wrong, "sum of integers", kolo::sum, add, small);
          try_operator<TestType>(
              comm, wrong, "max of integers", kolo::max, [](TestType a, TestType b) { return a < b ? b : a; }, small);
        }) == "");
}

TEST_CASE("the sum of bools is their or") {
  CHECK(on_five_sizes([](auto& comm, complaints& wrong) {
          const auto truth = [](int r, std::size_t i) { return (static_cast<std::size_t>(r) + i) % 3 == 0; };
          using flag = unsigned char;  // std::vector<bool> is not contiguous
          const auto in = filled<flag>(50, [&](std::size_t i) { return flag{truth(comm.rank(), i)}; });
          bool x[50];
          std::memcpy(x, in.data(), sizeof x);
          kolo::allreduce(comm, x, kolo::sum);
          for (std::size_t i = 0; i < 50; ++i) {
            bool any = false;
            for (int r = 0; r < comm.size(); ++r) any = any || truth(r, i);
            wrong.expect(x[i] == any, "or");
          }
        }) == "");
}
