// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hostfiles and options of Open MPI and MPICH differ; this translates them.
#include "hosts.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

namespace {

bool is_there(const std::string& program) {
  return std::system(("command -v '" + program + "' > /dev/null 2>&1").c_str()) == 0;
}

std::string version_of(const std::string& program) {
  std::string text;
  if (FILE* const out = ::popen(("'" + program + "' --version 2>&1").c_str(), "r")) {
    char part[256];
    while (std::fgets(part, sizeof part, out) != nullptr) text += part;
    ::pclose(out);
  }
  return text;
}

/// Translates a line, "name", "name:4" (MPICH) or "name slots=4" (Open MPI), to "name" or "name:4"; a comment to "".
std::string host_of(std::string line) {
  line = line.substr(0, line.find('#'));
  std::replace(line.begin(), line.end(), '=', ' ');
  std::istringstream words{line};
  std::string name, key, number;
  words >> name;
  while (words >> key)
    if (key == "slots" && words >> number) return name + ':' + number;
  return name;
}

std::string hosts_in(const std::string& file) {
  std::ifstream in{file};
  std::string all;
  for (std::string line; std::getline(in, line);) {
    if (const std::string host = host_of(line); !host.empty()) all += (all.empty() ? "" : ",") + host;
  }
  return all;
}

}  // namespace

int run_on_hosts(const settings& s) {
  std::string mpiexec = s.mpiexec;
  for (const char* known : {"mpiexec", "mpirun", "mpiexec.mpich", "mpiexec.openmpi"})
    if (mpiexec.empty() && is_there(known)) mpiexec = known;
  const std::string hosts = hosts_in(s.hosts);
  if (mpiexec.empty() || hosts.empty()) {
    std::cerr << "kolo-run: "
              << (hosts.empty() ? s.hosts + " contains no host"
                                : "--hosts needs mpiexec, which is not in PATH: install MPICH or Open MPI")
              << '\n';
    return hosts.empty() ? wrong_usage : cannot_start;
  }
  const std::string version = version_of(mpiexec);
  const bool is_open_mpi =
      version.find("Open MPI") != std::string::npos || version.find("OpenRTE") != std::string::npos;
  std::vector<std::string> words{mpiexec, "-n", std::to_string(s.ranks), is_open_mpi ? "--host" : "-hosts", hosts};
  if (is_open_mpi && ::geteuid() == 0) words.push_back("--allow-run-as-root");
  if (s.prefix) words.push_back(is_open_mpi ? "--tag-output" : "-prepend-rank");
  words.insert(words.end(), s.command.begin(), s.command.end());
  std::cerr << "kolo-run: running";
  std::vector<char*> arguments;
  for (std::string& word : words) {
    std::cerr << ' ' << word;
    arguments.push_back(word.data());
  }
  std::cerr << std::endl;
  arguments.push_back(nullptr);
  const bool is_rank = std::getenv("KOLO_RANK") != nullptr;  // of another job; its variables would override mpiexec's
  for (const char* const name : {"KOLO_RANK", "KOLO_SIZE", "KOLO_LOCAL_RANK", "KOLO_LOCAL_SIZE", "KOLO_NODE_RANK",
                                 "KOLO_NODE_COUNT", "KOLO_JOB"})
    if (is_rank) ::unsetenv(name);
  ::execvp(arguments[0], arguments.data());
  std::cerr << "kolo-run: " << mpiexec << ": " << std::strerror(errno) << '\n';
  return cannot_start;
}
