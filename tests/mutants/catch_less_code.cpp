// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in erase_if, and in moving a dynarray.
#include <kolo/core/less_code.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace core = kolo::detail::core;

int main() {
  std::vector<std::shared_ptr<int>> all{std::make_shared<int>(1), std::make_shared<int>(2), std::make_shared<int>(3)};
  const auto removed = core::erase_if(all, [](const std::shared_ptr<int>& i) { return *i != 3; });
  if (removed != 2 || all.size() != 1 || !all[0] || *all[0] != 3) return 1;
  core::dynarray<std::weak_ptr<int>> first{2};
  first[1] = all[0];
  const core::dynarray<std::weak_ptr<int>> taken{std::move(first)};
  if (first.begin() || taken.size() != 2) return 1;
  return taken[1].lock() == all[0] ? 0 : 1;
}
