// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Queries the system, PATH and the dynamic loader. Each feature is tried; none is inferred from a version.
#include "machine.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace doctor {

namespace {

std::string size_of(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; bytes /= 1024) ++unit;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bytes, units[unit]);
  return text;
}

finding cores() {
  const int usable = usable_cores();
  std::string answer = std::to_string(usable) + " usable, of " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
  if (std::FILE* const f = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    long quota = 0, period = 0;
    if (std::fscanf(f, "%ld %ld", &quota, &period) == 2 && period > 0)
      answer +=
          ", cgroup quota " + std::to_string(static_cast<double>(quota) / static_cast<double>(period)).substr(0, 4);
    std::fclose(f);
  }
  return {"cores", answer, usable > 1};
}

finding shared_memory() {
  struct statvfs room;
  if (::statvfs("/dev/shm", &room) != 0) return {"/dev/shm", std::string{"none: "} + std::strerror(errno), false};
  const double unit = static_cast<double>(room.f_frsize);
  return {"/dev/shm", size_of(static_cast<double>(room.f_bavail) * unit) + " free, of " +
                          size_of(static_cast<double>(room.f_blocks) * unit)};
}

finding memory_file() {
  const int fd = ::memfd_create("doctor", MFD_CLOEXEC);
  if (fd < 0) return {"memfd", std::string{"refused: "} + std::strerror(errno) + "; /dev/shm is used instead", false};
  ::close(fd);
  return {"memfd", "works"};
}

finding process_handles() {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  if (fd < 0)
    return {"pidfd", std::string{"refused: "} + std::strerror(errno) + "; kolo polls every 2 ms for ranks that ended",
            false};
  ::close(fd);
  return {"pidfd", "works"};
}

/// Reads a child's memory. kolo does not need this.
finding foreign_memory() {
  int theirs = 42, mine = 0;
  const pid_t child = ::fork();
  if (child < 0) return {"process_vm_readv", std::string{"not tried: "} + std::strerror(errno)};
  if (child == 0)
    for (;;) ::pause();
  iovec to{&mine, sizeof mine}, from{&theirs, sizeof theirs};
  const auto n = ::process_vm_readv(child, &to, 1, &from, 1, 0);
  const std::string why = n < 0 ? std::strerror(errno) : "nothing was read";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return {"process_vm_readv", n == sizeof mine && mine == 42 ? "works" : "refused: " + why + "; kolo does not need it"};
}

/// The output of a command; empty if it fails.
std::string said_by(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>/dev/null </dev/null").c_str(), "r");
  if (!pipe) return {};
  std::string text;
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, n);
  return ::pclose(pipe) == 0 ? text : std::string{};
}

std::string kind_in(const std::string& text) {
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (has("open-mpi") || has("openmpi") || has("Open MPI") || has("OpenRTE") || has("PRRTE")) return "Open MPI";
  if (has("Intel(R) MPI")) return "Intel MPI";
  if (has("HYDRA") || has("mpich") || has("MPICH")) return "MPICH";
  return text.empty() ? "" : "unknown implementation";
}

template <class F>
F function_of(void* library, const char* name) {
  return reinterpret_cast<F>(::dlsym(library, name));
}

finding driver() {
  void* const cuda = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (!cuda) return {"CUDA", "no driver (libcuda.so.1)"};
  const auto start = function_of<int (*)(unsigned)>(cuda, "cuInit");
  const auto count = function_of<int (*)(int*)>(cuda, "cuDeviceGetCount");
  int devices = 0;
  const int status = start && count ? start(0) : -1;
  if (status != 0) return {"CUDA", "there is a driver, but cuInit fails with status " + std::to_string(status), false};
  if (count(&devices) != 0) return {"CUDA", "there is a driver, but cuDeviceGetCount fails", false};
  return {"CUDA", std::to_string(devices) + (devices == 1 ? " device" : " devices"), devices > 0};
}

finding nccl() {
  void* const library = ::dlopen("libnccl.so.2", RTLD_NOW);
  if (!library) return {"NCCL", "no library (libnccl.so.2)"};
  int version = 0;
  const auto ask = function_of<int (*)(int*)>(library, "ncclGetVersion");
  if (!ask || ask(&version) != 0) return {"NCCL", "there is a library, but ncclGetVersion fails", false};
  return {"NCCL", std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
                      std::to_string(version % 100)};
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::vector<finding> machine() {
  return {cores(), shared_memory(), memory_file(), process_handles(), foreign_memory()};
}

std::vector<finding> message_passing() {
  std::vector<finding> all;
  for (const std::string end : {"", ".mpich", ".openmpi"}) {
    const auto compiles = kind_in(said_by("mpicxx" + end + " -show")),
               starts = kind_in(said_by("mpiexec" + end + " --version"));
    if (compiles.empty() && starts.empty()) continue;
    const auto or_none = [](const std::string& kind) { return kind.empty() ? std::string{"not found"} : kind; };
    const bool differ = !compiles.empty() && !starts.empty() && compiles != starts;
    all.push_back({"MPI" + (end.empty() ? "" : ", " + end.substr(1)),
                   "mpicxx" + end + ": " + or_none(compiles) + "; mpiexec" + end + ": " + or_none(starts) +
                       (differ ? "; every rank would be in a job of its own, of size 1" : ""),
                   !differ});
  }
  if (all.empty()) all.push_back({"MPI", "none in PATH"});
  return all;
}

std::vector<finding> accelerators() { return {driver(), nccl()}; }

}  // namespace doctor
