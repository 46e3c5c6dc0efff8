// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the repository's text.
#include "text.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace gpt {

std::string text_of(const std::string& repository) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  if (fs::is_regular_file(fs::path{repository} / "README.md")) files.push_back(fs::path{repository} / "README.md");
  if (fs::is_directory(fs::path{repository} / "include"))
    for (const auto& entry : fs::recursive_directory_iterator{fs::path{repository} / "include"})
      if (entry.path().extension() == ".hpp") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& path : files) {
    std::ifstream file{path, std::ios::binary};
    text.append(std::istreambuf_iterator<char>{file}, {});
  }
  if (text.size() < 10'000)
    throw std::runtime_error(repository + " has less than 10,000 characters of README.md and include/**.hpp");
  return text;
}

}  // namespace gpt
