// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces a file whole or not at all: whoever reads it finds the old content or the new, also after a crash or on a full disk.
#pragma once

#include <kolo/core/error.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace kolo::inline v0 {
namespace detail {

/// How much may still be written into a folder: the disk's space, or this process's own limit on a file if that is less.
inline std::uintmax_t free_bytes(const std::string& folder) {
  struct rlimit own {};
  const std::uintmax_t allowed = ::getrlimit(RLIMIT_FSIZE, &own) == 0 ? own.rlim_cur : UINTMAX_MAX;
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return allowed;  // it does not say
  const std::uintmax_t blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return std::min(allowed, blocks * disk.f_frsize);
}

/// A file beside the one that it is to replace; gone at the end unless it has become that one.
class temporary_file {
 public:
  explicit temporary_file(const std::string& target)
      : path_{target + ".partial-XXXXXX"}, descriptor_{::mkostemp(path_.data(), O_CLOEXEC)} {}
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  bool is_open() const { return descriptor_ >= 0; }

  /// False, and the reason in `errno`, if not all of it could be written.
  bool write(std::span<const std::byte> piece) {
    while (!piece.empty()) {
      const ::ssize_t n = ::write(descriptor_, piece.data(), piece.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      piece = piece.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// From here on `target` is this file, with these permissions, and on the disk.
  bool become(const std::string& target, const std::string& folder, ::mode_t permissions) {
    if (::fchmod(descriptor_, permissions) != 0 || ::fsync(descriptor_) != 0) return false;
    if (::rename(path_.c_str(), target.c_str()) != 0) return false;
    path_.clear();
    const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return true;  // renamed all the same; only a power failure could still undo it
    ::fsync(directory);
    ::close(directory);
    return true;
  }

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace detail

/// Makes `path` a file that consists of the pieces. Needs space for the old and the new content together.
///
/// Before: the directory exists; `path` is a file, a link to one, or nothing. After: `path` is the new file, on the disk.
/// Errors: `out_of_resources` with the bytes needed and free, or `system` with the reason; `path` is then as it was and nothing
/// else is left. Only a process that is killed in between leaves its unfinished `path.partial-...` behind.
inline void replace_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) throw error{errc::invalid_argument, "not a file, and so not replaced: " + path};
  const std::unique_ptr<char, decltype(&std::free)> real{exists ? ::realpath(path.c_str(), nullptr) : nullptr, &std::free};
  const std::string target = real ? real.get() : path;
  const std::size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);

  std::uintmax_t needed = 0, written = 0;
  for (const auto& piece : pieces) needed += piece.size();
  const auto refuse = [&](int reason) {
    const std::string what = std::strerror(reason);
    if (reason != ENOSPC && reason != EDQUOT && reason != EFBIG) throw error{errc::system, what + ": cannot write " + target};
    const std::string free = std::to_string(detail::free_bytes(folder) + written);
    throw error{errc::out_of_resources,
                what + ": " + std::to_string(needed) + " bytes needed, " + free + " free, to write " + target};
  };

  if (detail::free_bytes(folder) < needed) refuse(ENOSPC);
  detail::temporary_file file{target};
  if (!file.is_open()) refuse(errno);
  for (const auto& piece : pieces) {
    if (!file.write(piece)) refuse(errno);
    written += piece.size();
  }
  if (!file.become(target, folder, exists ? old.st_mode & 07777 : 0644)) refuse(errno);
}

}  // namespace kolo::inline v0
