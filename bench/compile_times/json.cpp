// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// nlohmann-json: parses a text and writes it.
#include <iostream>
#include <nlohmann/json.hpp>

int main() {
  const auto read = nlohmann::json::parse(R"({"ranks": 4, "sum": [1, 2.5, "three"]})");
  std::cout << read.dump(2) << '\n';
}
