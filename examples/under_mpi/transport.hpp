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
  /// Collective over `existing`, as a kolo::mpi::transport on a carrier is. `shares`: ranks of one host meet in shared memory, if they can.
  transport(const std::shared_ptr<kolo::mpi::carrier>& on, MPI_Comm existing, const std::vector<int>& ranks,
            const kolo::mpi::options& o, bool shares)
      : base{meeting(kolo::mpi::transport{on, existing, ranks, o}, shares)}, on_{on} {}

  transport split(int, int) {
    throw kolo::error{kolo::errc::invalid_argument, "MPI splits its communicators, and each part has one of kolo's"};
  }

  void relax(kolo::backoff& wait, const kolo::wait_context& context) {
    if (has_slots()) {
      wait.nap = longest_nap;
      if (++polls_ % (on_->is_oversubscribed() ? 4 : 64) == 0 || wait.polls > wait.spins) let_mpi_progress();
    }
    base::relax(wait, context);
  }

 private:
  static constexpr std::chrono::seconds longest_meeting{
      10};  // all have come to it, so nobody is waited for but who cannot
  static constexpr std::chrono::microseconds longest_nap{50};  // a message by rendezvous takes a few of them

  static base meeting(kolo::mpi::transport messages, bool shares) {
    return shares ? base::near_where_possible(std::move(messages), longest_meeting)
                  : base::far_only(std::move(messages));
  }

  /// Asks for a tag that nobody sends, since Open MPI does nothing else where it finds a message at once.
  void let_mpi_progress() {
    int is_there = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, 0, on_->communicator().get(), &is_there, MPI_STATUS_IGNORE);
  }

  std::shared_ptr<kolo::mpi::carrier> on_;
  unsigned polls_ = 0;
};

}  // namespace under_mpi
