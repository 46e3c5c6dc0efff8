// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces a file atomically: a reader finds the old content or the new, even after a crash or on a full disk.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/os/descriptor.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

/// Opens a file for reading. Errors: `system`.
inline std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (!file) throw error{errc::system, std::strerror(errno) + (": " + path)};
  return {file, &std::fclose};
}

/// Returns how many bytes can be written into a folder: the disk's free space, or this process's limit on a file's size
/// if that is less.
inline std::uintmax_t free_bytes(const std::string& folder) {
  struct rlimit own {};
  const std::uintmax_t allowed = ::getrlimit(RLIMIT_FSIZE, &own) == 0 ? own.rlim_cur : UINTMAX_MAX;
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return allowed;  // not reported
  const std::uintmax_t blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return std::min(allowed, blocks * disk.f_frsize);
}

/// Follows `target`'s name in the name of its unfinished file, before random letters.
inline constexpr char unfinished_mark[] = ".partial-";
inline constexpr std::size_t unfinished_letters = 6;

inline bool is_unfinished(std::string_view rest) {
  return rest.starts_with(unfinished_mark) && rest.size() == sizeof unfinished_mark - 1 + unfinished_letters;
}

/// Returns the folder of a path, with a slash at its end.
inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

/// Returns the name of a file without its folder.
inline std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Calls see(rest, path) for every file in `target`'s folder whose name is `target`'s name followed by `rest`.
void for_each_named_after(const std::string& target, auto see) {
  const std::string folder = folder_of(target), name = file_name_of(target);
  const std::unique_ptr<DIR, int (*)(DIR*)> files{::opendir(folder.c_str()), &::closedir};
  while (const dirent* const file = files ? ::readdir(files.get()) : nullptr)
    if (const std::string_view found = file->d_name; found.starts_with(name))
      see(found.substr(name.size()), folder + file->d_name);
}

/// Removes an unfinished file unless a process still writes it: a writer holds a lock, which the kernel releases if it
/// is killed.
inline void remove_unfinished(const std::string& path) {
  const os::descriptor file{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

/// Writes a folder's names of files to the disk. If that fails, only a power failure could still undo a rename there.
inline void write_names_of(const std::string& folder) {
  const os::descriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory) ::fsync(directory.get());
}

/// A file in the folder of the one that it will replace. The destructor removes it unless it has replaced that one.
class temporary_file {
 public:
  temporary_file(const std::string& target, ::mode_t permissions) {
    do {
      path_ = target + unfinished_mark + os::random_letters(unfinished_letters);
      const int made = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, permissions);
      file_ = os::descriptor{made};
      const int failed = errno;
      if (made >= 0 && !file_) ::unlink(path_.c_str()), errno = failed;
    } while (file_ ? !is_kept() : errno == EEXIST || errno == EINTR);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    if (file_ && !path_.empty()) ::unlink(path_.c_str());
  }

  bool is_open() const { return bool{file_}; }

  /// Returns false, with the reason in `errno`, if not all of it could be written.
  bool write(std::span<const std::byte> chunk) {
    while (!chunk.empty()) {
      const ::ssize_t n = ::write(file_.get(), chunk.data(), chunk.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      chunk = chunk.subspan(std::size_t(n));
    }
    return true;
  }

  bool permit(::mode_t permissions) { return ::fchmod(file_.get(), permissions) == 0; }

  /// Writes this file to the disk and renames it to `target`.
  bool become(const std::string& target, const std::string& folder) {
    if (::fsync(file_.get()) != 0) return false;
    if (::rename(path_.c_str(), target.c_str()) != 0) return false;
    path_.clear(), write_names_of(folder);
    return true;
  }

 private:
  /// Locks the file. Returns false if another process has removed it as a leftover.
  bool is_kept() const {
    struct stat now {};
    return ::flock(file_.get(), LOCK_EX) != 0 || ::fstat(file_.get(), &now) != 0 || now.st_nlink > 0;
  }

  std::string path_;
  os::descriptor file_{};
};

/// Returns `path`, or the target of its link, which may not exist.
inline std::string without_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real{::realpath(path.c_str(), nullptr), &std::free};
  if (real) return real.get();
  std::array<char, PATH_MAX> to{};
  const ::ssize_t n = errno == ENOENT ? ::readlink(path.c_str(), to.data(), to.size()) : -1;
  if (n <= 0) return path;
  const std::string target(to.data(), std::size_t(n));
  return without_links(target[0] == '/' ? target : folder_of(path) + target);
}

/// The file that a write to `path` makes or replaces: `path`, or the target of its link.
struct file_to_replace {
  explicit file_to_replace(const std::string& path) {
    struct stat old {};
    exists = ::stat(path.c_str(), &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
      throw error{errc::invalid_argument, "not a file, and so not replaced: " + path};
    target = without_links(path), permissions = old.st_mode & 07777;
  }
  std::string target{};
  bool exists = false;
  ::mode_t permissions = 0;
};

/// `replace_file` without the search for leftovers. Returns the path that was replaced: `path`, or the target of its
/// link.
inline std::string write_in_place_of(const std::string& path, std::span<const std::span<const std::byte>> chunks) {
  const file_to_replace old{path};
  const std::string &target = old.target, folder = folder_of(target);
  std::uintmax_t needed = 0, written = 0;
  for (const auto& chunk : chunks) needed += chunk.size();
  const auto refuse = [&](int reason) {
    const std::string what = std::strerror(reason);
    if (reason != ENOSPC && reason != EDQUOT && reason != EFBIG)
      throw error{errc::system, what + ": cannot write " + target};
    const std::string free = std::to_string(free_bytes(folder) + written);
    throw error{errc::out_of_resources,
                what + ": " + std::to_string(needed) + " bytes needed, " + free + " free, to write " + target};
  };

  if (free_bytes(folder) < needed) refuse(ENOSPC);
  temporary_file file{target, old.exists ? ::mode_t{0600} : ::mode_t{0666}};
  if (!file.is_open()) refuse(errno);
  for (const auto& chunk : chunks) {
    if (!file.write(chunk)) refuse(errno);
    written += chunk.size();
  }
  if ((old.exists && !file.permit(old.permissions)) || !file.become(target, folder)) refuse(errno);
  return target;
}

/// Removes the unfinished files of writers of `target` that were killed.
inline void remove_leftovers(const std::string& target) {
  for_each_named_after(target, [](std::string_view rest, const std::string& file) {
    if (is_unfinished(rest)) remove_unfinished(file);
  });
}

/// Replaces the file `path` by the chunks. Needs disk space for the old and the new content together.
///
/// Before: the directory exists; `path` is a file, or does not exist, or is a link to either. After: `path` is the new
/// file, on the disk, with the permissions of the old one, or those that the umask leaves. Errors: `out_of_resources`
/// with the bytes needed and free, or `system` with the reason; `path` is then unchanged, and no other file is left.
/// Only a process that is killed leaves its unfinished `path.partial-...`, which the next call for `path` removes.
inline void replace_file(const std::string& path, std::span<const std::span<const std::byte>> chunks) {
  remove_leftovers(write_in_place_of(path, chunks));
}

}  // namespace detail::train

}  // namespace kolo::inline KOLO_ABI
