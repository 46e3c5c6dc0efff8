// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the environment of mpiexec, srun and torchrun: NAME=value lines, as launchers set them.
#include <kolo/launch/job_id.hpp>

#include <map>
#include <sstream>

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream lines{std::string(reinterpret_cast<const char*>(data), size)};
  std::map<std::string, std::string> set;
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find('='); at != std::string::npos) set[line.substr(0, at)] = line.substr(at + 1);
  const auto lookup = [&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  try {
    const auto me = kolo::from_environment(lookup);
    fuzz::expect(0 <= me.rank && me.rank < me.size && 0 <= me.local_rank && me.local_rank < me.local_size &&
                 me.local_size <= me.size);
    fuzz::expect(0 <= me.node_rank && me.node_rank < me.node_count && me.node_count <= me.size);
    if (const char* said = lookup("KOLO_JOB"))
      fuzz::expect(kolo::detail::launch::job_name(me, said).size() < 100 || *said == '\0');
  } catch (const kolo::error& e) {
    fuzz::expect(e.code() == kolo::errc::invalid_argument);
  }
  return 0;
}
