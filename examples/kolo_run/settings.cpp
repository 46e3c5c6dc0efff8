// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the command line of kolo-run. Words after the program's name are its arguments.
#include "settings.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <thread>

namespace {

constexpr const char* more =
    "Each rank has KOLO_RANK, KOLO_SIZE, KOLO_LOCAL_RANK, KOLO_LOCAL_SIZE and KOLO_JOB in its environment, so that\n"
    "kolo::shm::world() finds the other ranks; with --hosts the variables of mpiexec.\n\n"
    "Exit status: 0 if all ranks returned 0; otherwise that of the rank that failed first, 128 + n if signal n killed "
    "it;\n"
    "64: wrong command line; 71: ranks could not be started; 127: there is no such program; 126: it cannot be run.\n"
    "With --hosts: the exit status of mpiexec.\n"
    "Signals INT, TERM, HUP, USR1 and USR2 are forwarded to all ranks. A terminal's input is not forwarded. Ranks end "
    "with\n"
    "kolo-run, however it ends; so do other processes in their process groups, unless kolo-run is killed.\n";

}  // namespace

std::optional<settings> read_settings(int argc, char** argv, int& status) {
  settings s;
  bool plain = false;
  s.ranks = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  CLI::App app{"Starts a program as several ranks: kolo-run [options] program [arguments]", "kolo-run"};
  app.footer(more);
  app.prefix_command();
  app.add_option("-n,--ranks", s.ranks, "number of ranks; by default that of processors")
      ->check([](const std::string& n) { return std::string{n == "p" ? "write -n in place of -np" : ""}; })
      ->check(CLI::Range(1, 1 << 16));
  app.add_option(
         "--hosts", s.hosts,
         "run over ssh on the hosts of this file, with the installed mpiexec; one name:ranks per line (with Open "
         "MPI a name without a number is a host of one rank)")
      ->check(CLI::ExistingFile);
  app.add_option("--mpiexec", s.mpiexec, "the mpiexec that --hosts runs; by default the first one in PATH");
  app.add_flag("--kill-on-failure", s.kill_on_failure,
               "when a rank fails, terminate the others: TERM, and KILL after 5 s; with --hosts mpiexec decides");
  app.add_flag("--no-prefix", plain, "do not prefix lines of output with the number of the rank");
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
    std::cerr << "kolo-run: unknown option " << s.command.front() << "; see --help\n";
    status = wrong_usage;
    return std::nullopt;
  }
  if (s.command.empty()) {
    std::cerr << "kolo-run: no program is given. Example: kolo-run -n 4 ./train arguments; see --help\n";
    status = wrong_usage;
    return std::nullopt;
  }
  return s;
}
