// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a process still exists. It is identified by its number and its start time, since numbers are reused.
#pragma once

#include <kolo/os/descriptor.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kolo::inline KOLO_ABI::detail::os {

/// Plain bytes, so that it can lie in shared memory.
struct process_id {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  ///< clock ticks since boot; 0: not known
  friend constexpr bool operator==(const process_id&, const process_id&) = default;
};

/// The contents of `/proc/<pid>/task/<pid>/stat`; `found` is false if there is no such process or `hidepid` hides it,
/// `known` is false if that cannot be determined. (Not `/proc/<pid>/stat`, which has the same fields: an emulator may
/// answer for itself when a process reads its own. qemu-user does, with another start time than other processes get.)
struct process_status {
  bool known = false, found = false;
  char state = '?';
  std::int32_t parent = 0;
  std::int32_t threads = 0;  ///< remaining ones; an ended main thread is a zombie and counted
  std::uint64_t start_time = 0;
};

/// After a system call on a path of the process has failed. Without /proc everything is absent, so absence means
/// nothing.
[[gnu::cold]] inline process_status absent_or_unknown() noexcept {
  const bool is_absent = errno == ENOENT || errno == ESRCH;
  return {.known = is_absent && ::access("/proc/self/stat", R_OK) == 0};
}

/// Used if no descriptor is left: only examines paths. A directory of threads has two links, and one more for each
/// thread; a zombie has no program.
[[gnu::cold, gnu::noinline]] inline process_status status_by_paths(std::int32_t pid) noexcept {
  process_status status;
  char path[64], first;
  struct stat threads {};
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  if (::stat(path, &threads) != 0) return absent_or_unknown();
  std::snprintf(path, sizeof path, "/proc/%d/exe", pid);
  if (::readlink(path, &first, 1) < 0 && errno == ENOENT) status.state = 'Z';
  status.threads = std::int32_t(threads.st_nlink) - 2;
  status.known = status.found = true;
  return status;
}

/// Allocates nothing. The start time is 0 if there is no descriptor to read it with.
[[gnu::cold, gnu::noinline]] inline process_status read_status(std::int32_t pid) noexcept {
  process_status status;
  char text[1024];  // the name in parentheses, which may hold anything, is at most 64 bytes long
  std::snprintf(text, sizeof text, "/proc/%d/task/%d/stat", pid, pid);
  const descriptor file{::open(text, O_RDONLY | O_CLOEXEC)};
  if (!file && (errno == EMFILE || errno == ENFILE)) return status_by_paths(pid);
  ssize_t length = -1;
  if (file) {
    do length = ::read(file.get(), text, sizeof text - 1);
    while (length < 0 && errno == EINTR);
  }
  if (length < 0) return absent_or_unknown();
  text[length] = '\0';
  const char* rest = std::strrchr(text, ')');
  if (rest == nullptr || rest + 2 >= text + length) return status;
  status.state = rest[2];
  const char* field = rest + 1;  // in front of field 3
  for (int number = 3; number <= 22 && field != nullptr; ++number) {
    if (number == 4) status.parent = std::int32_t(std::strtol(field, nullptr, 10));
    if (number == 20) status.threads = std::int32_t(std::strtol(field, nullptr, 10));
    if (number == 22) status.start_time = std::strtoull(field, nullptr, 10);
    field = std::strchr(field + 1, ' ');
  }
  status.known = status.found = status.start_time != 0;
  return status;
}

/// The calling process.
inline process_id this_process() noexcept {
  const std::int32_t pid = ::getpid();
  return {pid, read_status(pid).start_time};
}

/// Whether the process runs or could: an ended one is dead even before its parent has reaped it, and one whose main
/// thread has ended is alive as long as another thread runs. If this cannot be determined (no /proc, no permission, a
/// hidden process whose number is in use), it counts as alive.
inline bool is_alive(process_id process) noexcept {
  const auto status = read_status(process.pid);
  if (!status.known) return true;
  if (!status.found) return process.pid > 0 && (::kill(process.pid, 0) == 0 || errno != ESRCH);
  if ((status.state == 'Z' || status.state == 'X') && status.threads <= 1) return false;
  return process.start_time == 0 || status.start_time == 0 || status.start_time == process.start_time;
}

/// Identifies a namespace of this process, such as "/proc/self/ns/pid"; 0: it cannot be read.
[[gnu::cold]] inline std::uint64_t namespace_number(const char* path) noexcept {
  struct stat its {};
  return ::stat(path, &its) == 0 ? its.st_ino : 0;
}

/// Whether a signal or a debugger has stopped it. False if that cannot be determined.
inline bool is_stopped(process_id process) noexcept {
  const auto status = read_status(process.pid);
  return status.found && (status.state == 'T' || status.state == 't') &&
         (process.start_time == 0 || status.start_time == process.start_time);
}

}  // namespace kolo::inline KOLO_ABI::detail::os
