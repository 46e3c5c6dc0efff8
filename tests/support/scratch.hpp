// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A new directory for files of a test, which is removed with its contents.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

namespace testing {

class scratch_directory {
 public:
  scratch_directory() {
    if (!::mkdtemp(path_.data())) std::abort();
  }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;
  ~scratch_directory() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  const std::string& path() const { return path_; }
  /// The path of `name` in it.
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }
  std::ptrdiff_t entries() const { return std::distance(std::filesystem::directory_iterator{path_}, {}); }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "kolo-test-XXXXXX";
};

}  // namespace testing
