// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the command line of kolo-run says.
#pragma once

#include <optional>
#include <string>
#include <vector>

struct settings {
  int ranks = 1;
  std::string hosts;             // a file; empty: this host
  std::string mpiexec;           // what starts ranks on hosts; empty: the first that is there
  bool kill_on_failure = false;  // the first rank that fails ends the others
  bool prefix = true;            // each line with the number of its rank
  std::vector<std::string> command;
};

/// Exit statuses of kolo-run's own; others are a rank's (see ranks.hpp).
enum own_status { all_well = 0, wrong_usage = 64, cannot_start = 71 };

/// Nothing: it has been said (`status` is what to exit with).
std::optional<settings> read_settings(int argc, char** argv, int& status);
