// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same training on the ranks of an existing communicator, on one host or several.
#pragma once

#include "algorithms.hpp"
#include "load.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "training.hpp"

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/root.hpp>

#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {

/// Collective: trains; rank 0 prints the summary. Returns 0, or 1 if the accuracy is not within --accuracy-above and -below.
template <class Comm>
int train_joined(Comm& comm, const settings& s) {
  if (s.batch % s.parts(comm.size()) != 0 || (s.leaves > 0 && s.leaves < comm.size()))
    throw std::runtime_error("a batch of " + std::to_string(s.batch) + " images cannot be divided equally among " +
                             std::to_string(comm.size()) + " ranks: choose another --batch or --leaves");
  const split data = load(s);
  const std::size_t steps = data.train.size() / std::size_t(s.batch) * std::size_t(s.epochs);
  run r{comm.size(), steps * std::size_t(s.batch), {}, std::vector<double>(steps)};
  kolo::on_root(comm, [&] {
    describe(data, s);
    std::printf("\n%d rank%s on %d node%s\n", comm.size(), comm.size() == 1 ? "" : "s", comm.node_count(),
                comm.node_count() == 1 ? "" : "s");
  });
  with_algorithm(s.algorithm, [&](auto algorithm) {
    train(comm, algorithm, s, data, r.result, r.curve);
    r.result.apart = rate_apart(comm, algorithm, s, data);
  });
  int status = 0;
  kolo::on_root(comm, [&] {
    print_summary({r}, "Ranks");
    status = check_accuracy({r}, s) ? 0 : 1;
  });
  kolo::broadcast(comm, std::span{&status, 1}, 0);
  return status;
}

}  // namespace digits
