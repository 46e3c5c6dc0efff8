// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What carries the collectives: MPI's messages at first, and shared memory within each host for a communicator that is used a lot.
#pragma once

#include <kolo/mpi/mpi.hpp>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace under_mpi {

/// Whoever waits in shared memory lets MPI progress meanwhile, as MPI's own collectives do: a peer may stand in MPI_Recv for what this rank has sent
/// by MPI_Isend, and come to the collective after that only.
class transport : public kolo::routed<kolo::shm::transport, kolo::mpi::transport> {
  using base = kolo::routed<kolo::shm::transport, kolo::mpi::transport>;

 public:
  /// Collective over `existing`, as a kolo::mpi::transport on a carrier is. `shares`: ranks of one host meet in shared memory.
  transport(const std::shared_ptr<kolo::mpi::carrier>& on, MPI_Comm existing, const std::vector<int>& ranks,
            const kolo::mpi::options& o, bool shares)
      : base{shares ? base{on, existing, ranks, o} : base::over_far(kolo::mpi::transport{on, existing, ranks, o})},
        on_{on} {}

  transport split(int, int) {
    throw kolo::error{kolo::errc::invalid_argument, "MPI splits its communicators, and each part has one of kolo's"};
  }

  void relax(kolo::backoff& wait, const kolo::wait_context& context) {
    if (has_slots()) {
      wait.nap = longest_nap;
      if (++polls_ % (on_->is_crowded() ? 4 : 64) == 0 || wait.polls > spins) let_mpi_progress();
    }
    base::relax(wait, context);
  }

 private:
  static constexpr std::chrono::microseconds longest_nap{50};  // a message by rendezvous takes a few of them
  static constexpr int spins = 2000;                           // then it yields, and sleeps

  /// Asks for a tag that nobody sends, since Open MPI does nothing else where it finds a message at once.
  void let_mpi_progress() {
    int is_there = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, 0, on_->communicator().get(), &is_there, MPI_STATUS_IGNORE);
  }

  std::shared_ptr<kolo::mpi::carrier> on_;
  unsigned polls_ = 0;
};

}  // namespace under_mpi
