// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the targets share: bytes as a temporary file with a path, and the function that each target defines.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

/// A target: any bytes may be refused with the exceptions that it expects, and nothing else may happen.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

/// A file in memory, for code that needs a path.
class file {
 public:
  file(const std::uint8_t* data, std::size_t size) : fd_{::memfd_create("fuzz", MFD_CLOEXEC)} {
    if (fd_ < 0 || ::write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

inline void expect(bool condition) {
  if (!condition) std::abort();
}

}  // namespace fuzz
