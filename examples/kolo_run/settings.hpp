// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of kolo-run.
#pragma once

#include <optional>
#include <string>
#include <vector>

struct settings {
  int ranks = 1;
  std::string hosts;             // a file; empty: this host
  std::string mpiexec;           // for `hosts`; empty: the first one in PATH
  bool kill_on_failure = false;  // terminate the other ranks when one fails
  bool prefix = true;            // prefix each line with the number of its rank
  std::vector<std::string> command;
};

/// Exit statuses of kolo-run itself; others are those of ranks (see ranks.hpp).
enum own_status { all_well = 0, wrong_usage = 64, cannot_start = 71 };

/// Returns nothing if help or an error has been printed; `status` is then the exit status.
std::optional<settings> read_settings(int argc, char** argv, int& status);
