// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file descriptor that closes itself, random letters, and the error thrown for a failed system call.
#pragma once

#include <kolo/core/error.hpp>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::os {

inline bool is_exhausted(int code) {
  return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS || code == ETOOMANYREFS;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_errno(const char* what, int code = errno) {
  core::throw_error(is_exhausted(code) ? errc::out_of_resources : errc::system,
                    {what, ": ", std::generic_category().message(code)});
}

/// `n` random digits and small letters, of five bits each: for a name that nobody can guess.
[[gnu::cold, gnu::noinline]] inline std::string random_letters(std::size_t n) {
  std::string letters(n, ' ');
  if (::getrandom(letters.data(), n, 0) != static_cast<::ssize_t>(n))
    throw error{errc::system, "the system has no random numbers"};
  for (char& c : letters) c = "0123456789abcdefghijklmnopqrstuv"[c & 31];
  return letters;
}

/// Moves the file to a number above standard input, output and error. -1, with `errno` set: no number is left.
[[gnu::cold, gnu::noinline]] inline int above_standard(int fd) noexcept {
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  const int failed = errno;
  ::close(fd);
  errno = failed;
  return moved;
}

/// Its number is never 0, 1 or 2, which a program that was started with closed ones (`./first >&-`) still writes to.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) noexcept : fd_{fd < 0 || fd > 2 ? fd : above_standard(fd)} {}
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

/// A file, such as those of /proc, whose size is not known before it is read. Empty if it cannot be read.
[[gnu::cold, gnu::noinline]] inline std::string contents_of(const std::string& path) {
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  std::string text;
  char part[4096];
  while (file) {
    const ::ssize_t n = ::read(file.get(), part, sizeof part);
    if (n > 0) text.append(part, std::size_t(n));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) break;
  }
  return {};
}

}  // namespace kolo::inline KOLO_ABI::detail::os
