// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An MPI program without a training library: after the backward pass one MPI_Allreduce and a division for each gradient.
#pragma once

#include "contest.hpp"

#include <mpi.h>

namespace synthetic {

template <class Comm>
rival by_hand(contest<Comm>& all, const Comm& comm, const settings& s) {
  const auto step = [&all, &s, ranks = comm.size(),
                     sgd = kolo::replicated<kolo::update::sgd>{{}}](const task& what) mutable {
    parts p;
    const double begin = MPI_Wtime(), used = processor_seconds();
    compute(
        s, what.seconds, all.model().sizes, all.busy(), what.write, [](std::size_t) {}, [] {});
    p.compute = processor_seconds() - used;
    for (auto& [value, gradient] : all.model().parameters()) {
      MPI_Allreduce(MPI_IN_PLACE, gradient.data(), int(gradient.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      for (float& g : gradient) g /= float(ranks);
    }
    const double exchanged = MPI_Wtime();
    sgd.rule.rate = what.rate;
    std::size_t i = 0;
    for (auto& [value, gradient] : all.model().parameters()) sgd.step(i++, value, gradient);
    p.step = MPI_Wtime() - begin, p.update = MPI_Wtime() - exchanged;
    return p;
  };
  return {step, entry{.how = {.when = moment::after, .cut = "by hand"}, .buckets = all.model().sizes.size()}};
}

}  // namespace synthetic
