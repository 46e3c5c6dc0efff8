// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Real launchers, and the variables that a shell can set instead: the ranks of one job meet, and no others.
#include <kolo/launch/job_id.hpp>
#include <kolo/launch/rendezvous.hpp>

#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <cstdlib>

#include "processes/children.hpp"
#include "support/catch.hpp"

namespace {

using namespace std::chrono_literals;
using namespace kolo::detail::launch;

std::string this_program() {
  char path[4096] = {};
  return ::readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "";
}

/// This program as one rank: runs the hidden test below.
const std::string rank_command = "'" + this_program() + "' '[.rank]'";

/// Everything that the command and its children print. The variables of a launcher under which this test may run are not passed on.
std::string output_of(const std::string& command) {
  std::string said;
  if (FILE* const pipe = ::popen(("exec 2>&1; " + command).c_str(), "r")) {
    for (int c; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
    ::pclose(pipe);
  }
  return said;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// The launchers on this machine: each is the start of a command, to which a number is appended.
std::vector<std::string> launchers() {
  std::vector<std::string> found;
  if (std::system("command -v mpiexec.mpich > /dev/null") == 0) found.push_back("mpiexec.mpich -n ");
  if (std::system("command -v mpiexec.openmpi > /dev/null") == 0)
    found.push_back(
        "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpiexec.openmpi --oversubscribe -n ");
  if (std::system("command -v srun > /dev/null && sinfo > /dev/null 2>&1") == 0) found.push_back("srun -n ");
  if (found.empty()) WARN("skipped: neither MPICH, nor Open MPI, nor Slurm is installed");
  return found;
}

}  // namespace

TEST_CASE("one rank", "[.rank]") {  // no test by itself: the other tests start it
  std::string said;
  try {
    const auto l = kolo::from_environment();
    for (int again = 0; again < 2; ++again) {
      const auto m = rendezvous({l.rank, l.size, job_name(l) + '/' + std::to_string(again), 20s, {}},
                                [](kolo::detail::shm::shared_mapping& memory,
                                   const std::vector<kolo::detail::os::process_id>&) { return memory.reserve(64); });
      const auto data = m.memory.map(m.region, 64);
      auto* const counters = reinterpret_cast<std::atomic<int>*>(data.get());
      counters[1] += 1 << l.rank;
      for (++counters[0]; counters[0] < l.size;) ::sched_yield();
      said += " met " + std::to_string(counters[1]);
    }
    said = "<" + l.launcher + ' ' + std::to_string(l.size) + said + ">\n";
  } catch (const kolo::error& e) {
    said = std::string{"<"} + e.what() + ">\n";
  }
  CHECK(::write(1, said.data(), said.size()) == static_cast<ssize_t>(said.size()));
}

TEST_CASE("ranks meet under each launcher, directly and inside shells") {
  const auto before = testing::files_in("/dev/shm");
  for (const auto& launcher : launchers()) {
    for (const int n : {1, 2, 4, 8}) {
      const std::string expected = ' ' + std::to_string(n) + " met " + std::to_string((1 << n) - 1) + " met " +
                                   std::to_string((1 << n) - 1) + '>';
      const auto said = output_of(launcher + std::to_string(n) + ' ' + rank_command);
      INFO(said);
      CHECK(count(said, expected) == n);
    }
    const auto wrapped = output_of(launcher + "3 sh -c \"sh -c \\\"env A=b " + rank_command + "; true\\\"; true\"");
    INFO(wrapped);
    CHECK(count(wrapped, " 3 met 7 met 7>") == 3);
  }
  CHECK(testing::nothing_stays_in_dev_shm(before));
}

TEST_CASE("jobs that run at the same time do not meet") {
  // Open MPI's launchers conflict in a shared directory for temporary files.
  const auto beside = [](const std::string& job) { return "(d=$(mktemp -d); TMPDIR=$d " + job + "; rm -rf $d) & "; };
  for (const auto& launcher : launchers()) {
    const auto said =
        output_of(beside(launcher + "2 " + rank_command) + beside(launcher + "3 " + rank_command) + "wait");
    INFO(said);
    CHECK(count(said, " 2 met 3 met 3>") == 2);
    CHECK(count(said, " 3 met 7 met 7>") == 3);
    const auto alike =
        output_of(beside(launcher + "2 " + rank_command) + beside(launcher + "2 " + rank_command) + "wait");
    INFO(alike);
    CHECK(count(alike, " 2 met 3 met 3>") == 4);
  }
}

TEST_CASE("a launcher started by the ranks of another job makes its own jobs") {
  if (std::system("command -v mpiexec.mpich > /dev/null") != 0) {
    WARN("skipped: MPICH is not installed");
    return;
  }
  const auto said = output_of("mpiexec.mpich -n 2 sh -c \"mpiexec.mpich -n 2 " + rank_command + "; true\"");
  INFO(said);
  CHECK(count(said, "<mpich 2 met 3 met 3>") == 4);
}

TEST_CASE("ranks started by a shell, with the variables of each launcher") {
  const auto all = [](const std::string& variables) {  // # stands for the rank
    std::string command;
    for (const char* const r : {"0", "1", "2"}) {
      std::string set = variables;
      for (auto at = set.find('#'); at != std::string::npos; at = set.find('#')) set.replace(at, 1, r);
      command += set + ' ' + rank_command + " & ";
    }
    return output_of(command + "wait");
  };
  CHECK(count(all("KOLO_RANK=# KOLO_SIZE=3"), "<kolo 3 met 7 met 7>") == 3);
  CHECK(count(all("RANK=# WORLD_SIZE=3 LOCAL_RANK=# LOCAL_WORLD_SIZE=3 GROUP_RANK=0 GROUP_WORLD_SIZE=1 "
                  "TORCHELASTIC_RUN_ID=none"),
              "<torchrun 3 met 7 met 7>") == 3);
  CHECK(count(all("SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=# SLURM_NTASKS=3 SLURM_LOCALID=# SLURM_NODEID=0 "
                  "SLURM_NNODES=1 "
                  "SLURM_TASKS_PER_NODE=3"),
              "<srun 3 met 7 met 7>") == 3);
  CHECK(count(all("setsid env KOLO_JOB='a name of my own' KOLO_RANK=# KOLO_SIZE=3"), "<kolo 3 met 7 met 7>") == 3);
  CHECK(count(all("KOLO_RANK=# KOLO_SIZE=two"),
              "<kolo: KOLO_SIZE is \"two\", and should be a whole number from 1 on>") == 3);
}

TEST_CASE("a killed job leaves nothing, and its name can be used again") {
  const std::string name = "test " + std::to_string(::getpid());
  const auto before = testing::files_in("/dev/shm");
  testing::child alone{[&]() -> std::string {
    ::setenv("KOLO_JOB", name.c_str(), 1);
    ::setenv("KOLO_RANK", "0", 1);
    ::setenv("KOLO_SIZE", "2", 1);
    ::execl("/proc/self/exe", "one rank", "[.rank]", nullptr);
    return "no exec";
  }};
  while (!connect_to(job_name({}, name) + "/0")) ::sched_yield();
  alone.kill();
  CHECK(alone.result() == "signal 9");
  const std::string set = "KOLO_JOB='" + name + "' KOLO_SIZE=2 KOLO_RANK=";
  const auto said = output_of(set + "0 " + rank_command + " & " + set + "1 " + rank_command + " & wait");
  INFO(said);
  CHECK(count(said, "<kolo 2 met 3 met 3>") == 2);
  CHECK(testing::nothing_stays_in_dev_shm(before));
}

TEST_CASE("job_name: two jobs have different names, and a name is short") {
  kolo::launched l;
  l.rank_variable = "KOLO_TEST_NOBODY_SETS_THIS";
  const std::string mine = job_name(l, "");
  CHECK(mine.find('/' + std::to_string(::getppid()) + '@') != std::string::npos);
  CHECK(job_name(l, "a") != job_name(l, "b"));
  const auto with_port = [&](const char* launcher, const char* port) {
    l.launcher = launcher;
    ::setenv("MASTER_PORT", port, 1);
    const auto name = job_name(l, "");
    ::unsetenv("MASTER_PORT");
    return name;
  };
  CHECK(with_port("torchrun", "29500") != with_port("torchrun", "29501"));  // two jobs of one script
  CHECK(with_port("torchrun", "29500") == with_port("torchrun", "29500"));
  CHECK(with_port("torchrun", std::string(500, '1').c_str()).size() < 90);
  CHECK(with_port("kolo", "29500") == mine);
  const std::string long_name(500, 'x');
  CHECK(job_name(l, long_name).size() < 90);
  CHECK(job_name(l, long_name) != job_name(l, long_name + 'y'));
  const std::string blind =
      testing::child{[&]() -> std::string {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", "/proc", "tmpfs", 0, "size=64k") != 0)
          return "no mount";
        return job_name(l, "");
      }}.result();
  if (blind == "no mount") WARN("skipped without privileges: a system without /proc");
  else CHECK(blind.ends_with('/' + std::to_string(::getpid()) + "@0"));
  using namespace std::string_view_literals;
  for (const auto name : {"a\0"sv, "a\0b"sv, "a\0c"sv, "a"sv}) {  // of `meet`, or of a meeting: any bytes
    CHECK(job_name(l, name).find('\0') == std::string::npos);
    CHECK((name == "a\0b"sv || job_name(l, name) != job_name(l, "a\0b"sv)));
  }
  CHECK(sets("A=1\0RANK=2\0"sv, "RANK"));
  CHECK(sets("RANK="sv, "RANK"));
  CHECK_FALSE(sets("A=1\0LOCAL_RANK=2\0RANKS=3\0B=RANK=4"sv, "RANK"));
  CHECK_FALSE(sets(""sv, "RANK"));
}
