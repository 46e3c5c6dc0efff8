// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results as Google Benchmark rows.
#pragma once

#include "measure.hpp"

namespace kolo_bench {

/// Registers a row for each series and each distance of the cores, and writes them to `file` as Google Benchmark's JSON. The name is
/// collective/algorithm/implementation/bytes/ranks/element/place/buffers/mode/distance; the time is the mean of the bursts' medians.
///
/// | counter            | is |
/// |--------------------|----|
/// | `p10 p50 p90`      | of the bursts' medians, nanoseconds |
/// | `algbw busbw`      | GB/s at p50, as nccl-tests defines them |
/// | `percent_of_bound` | 100 floor / time, in the same rounds, if the floor ran in the same cell: its fastest way |
/// | `mpi_ratio`        | the faster MPI's time / time, in the same rounds, if one ran in the same cell. For kolo_mpich and kolo_openmpi: of the MPI in the same processes |
/// | `peer_p10 peer_p50 peer_p90` | time / the time of the fastest peer, MPI or Gloo, over the rounds in which both ran; for kolo_mpich and kolo_openmpi: of that MPI |
/// | `pingpong`         | nanoseconds of a cache line from core to core, around the bursts |
/// | `bursts`           | the number of bursts |
void write_rows(const measurement& m, const std::string& file,
                const std::vector<std::pair<std::string, std::string>>& context);

}  // namespace kolo_bench
