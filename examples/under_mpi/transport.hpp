// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of the collectives: MPI messages at first, and shared memory within each host for a communicator that is used often.
#pragma once

#include <kolo/mpi/mpi.hpp>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace under_mpi {

/// While a rank waits in shared memory, it lets MPI progress, as MPI's collectives do: a peer may be in MPI_Recv for a message that this rank sent by
/// MPI_Isend, and call the collective only after it.
class transport : public kolo::routed<kolo::shm::transport, kolo::mpi::transport> {
  using base = kolo::routed<kolo::shm::transport, kolo::mpi::transport>;

 public:
  /// Collective over `existing`, like a kolo::mpi::transport on a carrier. `shares`: ranks of one host use shared memory, if possible.
  transport(const std::shared_ptr<kolo::mpi::carrier>& on, MPI_Comm existing, const std::vector<int>& ranks,
            const kolo::mpi::options& o, bool shares)
      : base{meeting(kolo::mpi::transport{on, existing, ranks, o}, shares)}, on_{on} {}

  transport split(int, int) {
    throw kolo::error{kolo::errc::invalid_argument, "not supported: split the MPI communicator instead"};
  }

  void relax(kolo::backoff& wait, const kolo::wait_context& context) {
    if (has_slots()) {
      wait.nap = longest_nap;
      if (++polls_ % (on_->is_oversubscribed() ? 4 : 64) == 0 || wait.polls > wait.spins) let_mpi_progress();
    }
    base::relax(wait, context);
  }

 private:
  static constexpr std::chrono::seconds longest_meeting{10};  // short: all ranks are in this call already
  static constexpr std::chrono::microseconds longest_nap{
      50};  // short: a rendezvous message needs progress several times

  static base meeting(kolo::mpi::transport messages, bool shares) {
    return shares ? base::near_where_possible(std::move(messages), longest_meeting)
                  : base::far_only(std::move(messages));
  }

  /// Probes for a tag that is never sent: if Open MPI finds a message at once, it makes no progress.
  void let_mpi_progress() {
    int is_there = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, 0, on_->communicator().get(), &is_there, MPI_STATUS_IGNORE);
  }

  std::shared_ptr<kolo::mpi::carrier> on_;
  unsigned polls_ = 0;
};

}  // namespace under_mpi
