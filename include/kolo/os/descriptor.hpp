// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file descriptor that closes itself, and what a failed system call throws.
#pragma once

#include <kolo/core/error.hpp>

#include <unistd.h>
#include <cerrno>
#include <system_error>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::os {

inline bool is_exhausted(int code) { return code == EMFILE || code == ENFILE || code == ENOMEM; }

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_errno(const char* what, int code = errno) {
  core::throw_error(is_exhausted(code) ? errc::out_of_resources : errc::system,
                    {what, ": ", std::generic_category().message(code)});
}

class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  descriptor(descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  descriptor& operator=(descriptor&& other) noexcept {
    descriptor old{std::exchange(fd_, std::exchange(other.fd_, -1))};
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace kolo::inline KOLO_ABI::detail::os
