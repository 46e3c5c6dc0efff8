// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which kolo communicator stands behind an MPI communicator, what failed there, and how many calls ran where.
#pragma once

#include <kolo/transport/mpi.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

namespace under_mpi {

using wire = kolo::mpi::communicator;

/// An MPI communicator's attribute.
struct entry {
  std::optional<wire> comm{};   ///< nothing: MPI has to do it all
  int code = MPI_SUCCESS;       ///< of the failure that has broken it
};

enum class function { allreduce, reduce, reduce_scatter, reduce_scatter_block, scan, broadcast, allgather, allgatherv, alltoall, barrier };
inline constexpr const char* names[] = {"Allreduce", "Reduce",    "Reduce_scatter", "Reduce_scatter_block", "Scan",
                                        "Bcast",     "Allgather", "Allgatherv",     "Alltoall",             "Barrier"};

/// All entries of this process. It is never destroyed: who knows in which order things go when a program ends.
class registry {
 public:
  static registry& all() {
    static auto& one = *new registry;
    return one;
  }

  /// Null where MPI has to do it all. Collective when it is the first collective of `comm`.
  entry* find(MPI_Comm comm) {
    if (is_over_) return nullptr;
    void* kept = nullptr;
    int found = 0;
    PMPI_Comm_get_attr(comm, key_, &kept, &found);
    auto* const e = found != 0 ? static_cast<entry*>(kept) : make(comm);
    return e->comm ? e : nullptr;
  }

  void count(function f, bool by_kolo) { ++calls_[static_cast<std::size_t>(f)][by_kolo ? 0 : 1]; }

  /// Before MPI_Finalize: MPI calls no functions of ours while it shuts down.
  void end() {
    is_over_ = true;
    const std::scoped_lock lock{mutex_};
    for (auto* const e : entries_) e->comm.reset();
    const char* const wish = std::getenv("KOLO_MPI_REPORT");
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (wish && *wish == '1' && rank == 0) std::fprintf(stderr, "%s\n", report().c_str());
  }

  /// "kolo under MPI, rank 0: Allreduce 12, Bcast 3 and 1 by MPI"
  std::string report() const {
    std::string line;
    for (std::size_t i = 0; i < std::size(names); ++i) {
      const long ours = calls_[i][0], theirs = calls_[i][1];
      if (ours + theirs == 0) continue;
      line += (line.empty() ? "" : ", ") + std::string{names[i]} + (ours > 0 ? " " + std::to_string(ours) : "");
      if (theirs > 0) line += (ours > 0 ? " and " : " ") + std::to_string(theirs) + " by MPI";
    }
    return "kolo under MPI, rank 0: " + (line.empty() ? "no collective" : line);
  }

 private:
  registry() { PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key_, nullptr); }

  /// MPI may have no communicator left, or this one may have two groups.
  entry* make(MPI_Comm comm) {
    auto made = std::make_unique<entry>();
    int is_inter = 0;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter == 0) {
      MPI_Errhandler handler;
      PMPI_Comm_get_errhandler(comm, &handler);
      PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      try {
        made->comm.emplace(comm, kolo::mpi::options{.timeout = deadline()});
      } catch (const std::exception& e) {
        std::fprintf(stderr, "kolo under MPI: a communicator is left to MPI: %s\n", e.what());
      }
      PMPI_Comm_set_errhandler(comm, handler);
      PMPI_Errhandler_free(&handler);
    }
    PMPI_Comm_set_attr(comm, key_, made.get());
    const std::scoped_lock lock{mutex_};
    entries_.insert(made.get());
    return made.release();
  }
  static int forget(MPI_Comm, int, void* kept, void*) {
    auto& r = all();
    const std::unique_ptr<entry> e{static_cast<entry*>(kept)};
    const std::scoped_lock lock{r.mutex_};
    r.entries_.erase(e.get());
    return MPI_SUCCESS;
  }

  /// KOLO_MPI_TIMEOUT, in seconds; without it a year, since MPI waits for ever.
  static std::chrono::nanoseconds deadline() {
    const char* const wish = std::getenv("KOLO_MPI_TIMEOUT");
    const double seconds = wish ? std::atof(wish) : 0;
    return seconds > 0 ? std::chrono::nanoseconds{static_cast<long long>(seconds * 1e9)} : std::chrono::hours{24 * 365};
  }

  std::mutex mutex_;
  std::unordered_set<entry*> entries_;
  std::atomic<long> calls_[std::size(names)][2]{};
  std::atomic<bool> is_over_{false};
  int key_ = MPI_KEYVAL_INVALID;
};

}  // namespace under_mpi
