// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A name for the job of this process: the same for all its ranks on a host, and different for jobs of other launchers.
#pragma once

#include <kolo/launch/environment.hpp>
#include <kolo/os/descriptor.hpp>
#include <kolo/os/process.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::launch {

/// Whether this block of NUL-terminated NAME=value strings sets `name`.
inline bool sets(std::string_view block, std::string_view name) {
  while (!block.empty()) {
    if (block.starts_with(name) && block.substr(name.size()).starts_with('=')) return true;
    const auto end = block.find('\0');
    block.remove_prefix(end == std::string_view::npos ? block.size() : end + 1);
  }
  return false;
}

/// A launcher that was itself started by a rank of another job has that rank's variables in its environment.
inline bool is_known_launcher(std::string_view command) {
  constexpr std::string_view names[] = {
      "hydra_pmi_proxy", "mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun", "orterun", "mpiexec.openmpi",
      "mpirun.openmpi",  "mpirun.mpich",  "slurmstepd",    "orted",   "prted",  "prterun"};
  if (command.ends_with('\n')) command.remove_suffix(1);
  return std::find(std::begin(names), std::end(names), command) != std::end(names);
}

/// The process that started the ranks: the nearest ancestor that was not given a rank itself, or whose environment
/// cannot be read. Shells and other wrappers may lie in between, one or more per rank.
inline os::process_id find_launcher(const std::string& rank_variable) {
  std::int32_t pid = ::getppid();
  for (;;) {
    const os::process_status status = os::read_status(pid);
    const auto directory = "/proc/" + std::to_string(pid) + '/';
    const bool wrapper = status.parent > 0 && sets(os::contents_of(directory + "environ"), rank_variable) &&
                         !is_known_launcher(os::contents_of(directory + "comm"));
    if (!wrapper) return {pid, status.start_time};
    pid = status.parent;
  }
}

/// The user's name for the job (KOLO_JOB), or else the launcher's process, and for torchrun the port of the job.
/// Different users and different containers never get the same name. Jobs started by one process do, if nothing
/// distinguishes them.
inline std::string job_name(const launched& l, std::string_view given) {
  std::string name =
      "kolo/" + std::to_string(::geteuid()) + '/' + std::to_string(os::namespace_number("/proc/self/ns/pid")) + '/';
  if (given.empty()) {
    const os::process_id launcher = find_launcher(l.rank_variable);
    name += std::to_string(launcher.pid) + '@' + std::to_string(launcher.start_time);
    const char* const port = l.launcher == torchrun_words.launcher ? std::getenv("MASTER_PORT") : nullptr;
    return port == nullptr ? name : name + ':' + std::string{std::string_view{port}.substr(0, 5)};
  }
  const auto shown = given.substr(0, given.find('\0'));  // the kernel's list of sockets is read as text
  if (given.size() <= 40 && shown == given) return (name += "job ") += given;
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a: the name of a socket is at most 107 bytes long
  for (const char c : given) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return ((name += "job ") += shown.substr(0, 20)) + '#' + std::to_string(hash);
}
inline std::string job_name(const launched& l) {
  const char* const given = std::getenv("KOLO_JOB");
  return job_name(l, given == nullptr ? "" : given);
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
