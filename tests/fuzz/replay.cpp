// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a target on files: for the corpus, with a compiler without libFuzzer. Usage: target [-option...] file or folder...
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace {
int run(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  return 1;
}
}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    if (!std::filesystem::is_directory(argv[i])) files += run(argv[i]);
    else
      for (const auto& entry : std::filesystem::directory_iterator{argv[i]}) files += run(entry.path());
  }
  std::cout << files << " inputs, nothing wrong\n";
  return files > 0 ? 0 : 1;
}
