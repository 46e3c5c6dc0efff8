// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The replacements of standard library templates: erase_if, dynarray, shared.
#include <kolo/core/less_code.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace in_less_code {

namespace core = kolo::detail::core;

TEST_CASE("erase_if removes the matching elements, and asks about each once", "[core]") {
  for (unsigned which = 0; which < 32; ++which) {
    std::vector<std::unique_ptr<int>> all;
    for (int i = 0; i < 5; ++i) all.push_back(std::make_unique<int>(i));
    std::vector<int> asked, expected, left;
    const auto removed = core::erase_if(all, [&](const std::unique_ptr<int>& i) {
      asked.push_back(*i);
      return (which >> *i & 1) != 0;
    });
    for (int i = 0; i < 5; ++i)
      if ((which >> i & 1) == 0) expected.push_back(i);
    for (const auto& i : all) left.push_back(*i);
    std::sort(left.begin(), left.end());
    std::sort(asked.begin(), asked.end());
    CHECK(left == expected);
    CHECK(removed == 5 - expected.size());
    CHECK(asked == std::vector<int>{0, 1, 2, 3, 4});
  }
}

TEST_CASE("dynarray is zero-initialised, and a move empties its source", "[core]") {
  core::dynarray<int> three(3);
  CHECK(std::vector<int>(three.begin(), three.end()) == std::vector<int>{0, 0, 0});
  three[2] = 7;
  const core::dynarray<int> taken{std::move(three)};
  CHECK(taken.size() == 3);
  CHECK(three.size() == 0);  // NOLINT: moved from
  CHECK(taken[2] == 7);
  CHECK(core::dynarray<int>{0}.size() == 0);
}

TEST_CASE("shared constructs the object from its arguments", "[core]") {
  const auto pair = core::shared<const std::pair<int, int>>(1, 2);
  CHECK(*pair == std::pair{1, 2});
  CHECK(pair.use_count() == 1);
}

}  // namespace in_less_code
