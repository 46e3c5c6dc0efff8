// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the command line of kolo-run. What stands behind the program is the program's.
#include "settings.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <thread>

namespace {

constexpr const char* more =
    "Each rank has KOLO_RANK, KOLO_SIZE, KOLO_LOCAL_RANK, KOLO_LOCAL_SIZE and KOLO_JOB in its environment, so that\n"
    "kolo::shm::world() finds the others; with --hosts what mpiexec sets.\n\n"
    "Exit status: 0 if all ranks returned 0; else that of the rank that failed first, 128 + n where signal n killed "
    "it;\n"
    "64: the command line makes no sense; 71: ranks could not be started; 127: there is no such program, 126: it does "
    "not\n"
    "run. With --hosts what mpiexec returns.\n"
    "Signals INT, TERM, HUP, USR1 and USR2 are forwarded to all ranks, which read nothing from a terminal. Ranks end "
    "with\n"
    "kolo-run, however that ends; what they have started in their process groups, too, unless kolo-run is killed.\n";

}  // namespace

std::optional<settings> read_settings(int argc, char** argv, int& status) {
  settings s;
  bool plain = false;
  s.ranks = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  CLI::App app{"Starts a program as several ranks: kolo-run [options] program [arguments]", "kolo-run"};
  app.footer(more);
  app.prefix_command();
  app.add_option("-n,--ranks", s.ranks, "how many ranks; as many as processors unless it is said")
      ->check([](const std::string& n) { return std::string{n == "p" ? "write -n in place of -np" : ""}; })
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--hosts", s.hosts,
                 "a file, name:ranks a line (a bare name: one rank, by Open MPI): over ssh, by the MPI that is here")
      ->check(CLI::ExistingFile);
  app.add_option("--mpiexec", s.mpiexec, "which mpiexec --hosts takes");
  app.add_flag("--kill-on-failure", s.kill_on_failure,
               "the first rank that fails ends the others: TERM, then KILL after 5 s; with --hosts mpiexec decides");
  app.add_flag("--no-prefix", plain, "lines of output as they are, without the number of the rank");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    status = app.exit(e) == 0 ? all_well : wrong_usage;
    return std::nullopt;
  }
  s.prefix = !plain;
  s.command = app.remaining();
  if (!s.command.empty() && s.command.front() == "--") s.command.erase(s.command.begin());
  else if (!s.command.empty() && s.command.front().starts_with('-')) {
    std::cerr << "kolo-run: what is " << s.command.front() << "? --help lists options\n";
    status = wrong_usage;
    return std::nullopt;
  }
  if (s.command.empty()) {
    std::cerr << "kolo-run: which program? kolo-run -n 4 ./train arguments; --help says more\n";
    status = wrong_usage;
    return std::nullopt;
  }
  return s;
}
