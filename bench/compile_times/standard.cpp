// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Headers that most programs include.
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::vector<std::string> words(3, "so");
  std::cout << words.size() << '\n';
}
