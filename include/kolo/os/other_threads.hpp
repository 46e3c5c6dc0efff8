// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Before fork: the threads that a child would miss. Threads that only wait for work are ended; the others are counted.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/text.hpp>
#include <kolo/os/descriptor.hpp>

#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

namespace kolo::inline KOLO_ABI::detail::os {

/// The number of threads besides the calling one, and the name of one of them. Without /proc: none are known.
struct other_threads {
  int count = 0;
  std::string name{};
};

/// A joined thread may still be exiting: the kernel sets a flag in the ninth field before the joining thread continues.
[[gnu::cold, gnu::noinline]] inline bool is_ending(const std::string& stat) {
  constexpr unsigned exiting = 4;  // PF_EXITING
  const auto rest = stat.rfind(')');
  unsigned flags = exiting;
  if (rest != std::string::npos) std::sscanf(stat.c_str() + rest + 1, " %*c %*d %*d %*d %*d %*d %u", &flags);
  return (flags & exiting) != 0;
}

/// This thread's name in /proc/self/task: its id in the pid namespace of /proc, which may be another than its own.
[[gnu::cold, gnu::noinline]] inline std::string name_of_this_thread() {
  char path[64];
  const ssize_t length = ::readlink("/proc/thread-self", path, sizeof path);
  const std::string_view link{path, length > 0 ? std::size_t(length) : 0};
  return length > 0 ? std::string{link.substr(link.rfind('/') + 1)} : core::text_of({::gettid()});
}

[[gnu::cold, gnu::noinline]] inline other_threads find_other_threads() {
  other_threads found;
  const std::string own = name_of_this_thread();
  DIR* const tasks = ::opendir("/proc/self/task");
  if (!tasks) return found;
  while (const dirent* const task = ::readdir(tasks)) {
    const auto directory = core::text_of({"/proc/self/task/", task->d_name, "/"});
    if (task->d_name[0] == '.' || task->d_name == own || is_ending(contents_of(core::text_of({directory, "stat"}))))
      continue;
    ++found.count;
    found.name = contents_of(core::text_of({directory, "comm"}));
    found.name.resize(std::min(found.name.find('\n'), found.name.size()));
  }
  ::closedir(tasks);
  return found;
}

/// GNU's OpenMP keeps the threads of the last parallel region, and would wait for them in a child. The next region
/// restarts them.
[[gnu::cold, gnu::noinline]] inline void end_threads_of_openmp() {
  constexpr int soft = 1;  // omp_pause_resource_t
  void* const library = ::dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (const auto pause =
          reinterpret_cast<int (*)(int)>(::dlsym(library ? library : RTLD_DEFAULT, "omp_pause_resource_all")))
    pause(soft);
  if (library) ::dlclose(library);
}
/// Whether qemu-user runs the program. (It answers for /proc/self/exe itself, but not for this path.)
[[gnu::cold, gnu::noinline]] inline bool is_emulated_by_qemu() {
  char file[4096];
  const auto link = core::text_of({"/proc/self/task/", ::gettid(), "/exe"});
  const ssize_t length = ::readlink(link.c_str(), file, sizeof file);
  const std::string_view path{file, length > 0 ? std::size_t(length) : 0};
  return path.substr(path.rfind('/') + 1).starts_with("qemu-");
}
/// LLVM's OpenMP, which is Intel's, the thread sanitizer and qemu-user restart their threads in a child; these threads
/// cannot be told from others.
inline bool may_have_fork_safe_threads() {
  return ::dlsym(RTLD_DEFAULT, "__kmpc_fork_call") || ::dlsym(RTLD_DEFAULT, "__tsan_init") || is_emulated_by_qemu();
}
/// Some libraries, such as OpenBLAS, end their threads when the process forks.
[[gnu::cold, gnu::noinline]] inline void end_threads_by_fork() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// Ends the threads that can be ended. Errors  invalid_argument: there are other threads.
[[gnu::cold, gnu::noinline]] inline void be_the_only_thread(const char* call) {
  constexpr std::chrono::seconds exit_grace{1};
  if (find_other_threads().count == 0) return;
  end_threads_of_openmp();
  if (find_other_threads().count > 0) end_threads_by_fork();
  if (may_have_fork_safe_threads()) return;
  const auto since = std::chrono::steady_clock::now();
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) {
    const auto others = find_other_threads();
    if (others.count == 0) return;
    if (std::chrono::steady_clock::now() - since < exit_grace) continue;
    core::throw_error(
        errc::invalid_argument,
        {call, " forks, which copies the calling thread only, and the program has ", others.count, " more (\"",
         others.name,
         "\"), for which a copy might wait without end: start threads inside the function that is launched, or "
         "let a launcher start the ranks (shm::world)"});
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::os
