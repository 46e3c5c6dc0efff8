// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interleaves the variants that the settings name, and prints the results.
#pragma once

#include "contest.hpp"
#include "report.hpp"

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/root.hpp>

#include <cstdio>

namespace synthetic {

/// Collective. `add_more(contest)` may add variants. Returns the same on every rank: 0 if all checks passed.
template <class Comm, class More>
int compare(Comm& comm, const settings& s, More add_more) {
  contest<Comm> all{comm, s};
  with_algorithm(s.algorithm, [&](auto algorithm) {
    for (const way& w : ways_of(s)) all.add(w, algorithm);
  });
  add_more(all);
  const auto entries = all.run();
  int status = 0;
  kolo::on_root(comm, [&] {
    describe(s);
    print(entries, {comm.size(), comm.node_count(), all.seconds()}, s);
    status = check(entries, s) ? 0 : 1;
    std::fflush(stdout);
  });
  kolo::broadcast(comm, std::span{&status, 1}, 0);
  return status;
}

}  // namespace synthetic
