// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo-run: starts a program as several ranks, on this host or on the hosts of a file.
#include "hosts.hpp"
#include "ranks.hpp"

int main(int argc, char** argv) {
  int status = all_well;
  const auto s = read_settings(argc, argv, status);
  if (!s) return status;
  return s->hosts.empty() ? run_ranks(*s) : run_on_hosts(*s);
}
