// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kolo communicator of each MPI communicator, its failure, and the numbers of calls that kolo and MPI have run.
#pragma once

#include "worked_out.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace under_mpi {

/// Set while kolo runs, since it calls some of the functions that this library replaces.
inline thread_local bool inside = false;
struct inside_kolo {
  inside_kolo() = default;
  inside_kolo(const inside_kolo&) = delete;
  inside_kolo& operator=(const inside_kolo&) = delete;
  ~inside_kolo() { inside = before; }
  bool before = std::exchange(inside, true);
};

/// An attribute of each MPI communicator.
struct entry {
  int rank = 0, size = 1;
  std::vector<int> ranks{};            ///< in MPI_COMM_WORLD; empty: MPI runs all calls
  std::optional<communicator> comm{};  ///< set by its first collective
  int code = MPI_SUCCESS;              ///< error code of the failure that has broken it
  bool refused = false;                ///< this rank's last call was refused; others may wait for it
  int calls = 0;                       ///< run by kolo, up to a limit; equal on all ranks unless one failed
};

enum class function {
  allreduce,
  reduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  broadcast,
  allgather,
  allgatherv,
  alltoall,
  barrier
};
inline constexpr const char* names[] = {"Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block",
                                        "Scan",      "Bcast",  "Allgather",      "Allgatherv",
                                        "Alltoall",  "Barrier"};

/// All entries of this process. Never destroyed, since the order of destruction at exit is unknown.
class registry {
 public:
  static registry& all() {
    static auto& one = *new registry;
    return one;
  }

  /// After MPI_Init: collective over all processes. One duplicate of MPI_COMM_WORLD carries all communicators inside it.
  void begin() {
    const inside_kolo here;
    const std::scoped_lock lock{beginning_};
    if (is_over_ || is_ready_) return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key_, nullptr);
    // MPI_Finalize first deletes the attributes of MPI_COMM_SELF, which calls `finalizing`, also if Fortran code calls it.
    int at_the_end = MPI_KEYVAL_INVALID;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalizing, &at_the_end, nullptr);
    PMPI_Comm_set_attr(MPI_COMM_SELF, at_the_end, this);
    carrier_ = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    is_ready_ = true;
    if (auto* const world = find(MPI_COMM_WORLD)) meet(*world, MPI_COMM_WORLD);
  }

  /// Null if MPI runs all calls of `comm`. Does not communicate, unless MPI_Init was not seen.
  entry* find(MPI_Comm comm) {
    if (is_over_ || comm == MPI_COMM_NULL || (!is_ready_ && !begin_late(comm))) return nullptr;
    void* attribute = nullptr;
    int found = 0;
    if (PMPI_Comm_get_attr(comm, key_, &attribute, &found) != MPI_SUCCESS) return nullptr;  // freed: MPI reports it
    auto* const e = found != 0 ? static_cast<entry*>(attribute) : make(comm);
    return e->ranks.empty() ? nullptr : e;
  }

  /// Collective over `comm` in its first call, and in the one from which it uses shared memory. False if the carrier is full: MPI runs all calls then.
  bool meet(entry& e, MPI_Comm comm) {
    if (!e.comm && e.code != MPI_SUCCESS) throw std::runtime_error{"this communicator has failed before"};
    if (!e.comm) begin(e, comm, false);
    else if (e.calls < calls_by_messages * e.size && ++e.calls == calls_by_messages * e.size && has_neighbours(e))
      share_memory(e, comm);
    return e.comm.has_value();
  }

  void count(function f, bool by_kolo) { ++calls_[static_cast<std::size_t>(f)][by_kolo ? 0 : 1]; }

  /// Called while MPI is still running: MPI_Finalize calls no functions of this library later.
  void end() {
    if (is_over_.exchange(true)) return;
    const inside_kolo here;
    {
      const std::scoped_lock lock{mutex_};
      for (auto* const e : entries_) take_out(*e);
    }
    carrier_.reset();
    report();
  }

  /// Prints the report once, on rank 0 of MPI_COMM_WORLD, if KOLO_MPI_REPORT=1. If the rank is unknown, uses the launcher's variables.
  void report() {
    const char* const wish = std::getenv("KOLO_MPI_REPORT");
    if (!wish || *wish != '1' || has_reported_.exchange(true)) return;
    try {
      if ((rank_ >= 0 ? rank_ : kolo::from_environment().rank) == 0) std::fprintf(stderr, "%s\n", text().c_str());
    } catch (const std::exception&) {  // the rank is unknown
    }
  }

 private:
  registry() = default;

  /// "kolo under MPI, rank 0: Allreduce 12, Bcast 3 and 1 by MPI; shared memory in 1 communicator"
  std::string text() const {
    std::string line;
    for (std::size_t i = 0; i < std::size(names); ++i) {
      const long ours = calls_[i][0], theirs = calls_[i][1];
      if (ours + theirs == 0) continue;
      line += (line.empty() ? "" : ", ") + std::string{names[i]} + (ours > 0 ? " " + std::to_string(ours) : "");
      if (theirs > 0) line += (ours > 0 ? " and " : " ") + std::to_string(theirs) + " by MPI";
    }
    if (const int n = shared_; n > 0)
      line += "; shared memory in " + std::to_string(n) + (n == 1 ? " communicator" : " communicators");
    return "kolo under MPI, rank 0: " + (line.empty() ? "no collective was seen" : line);
  }

  /// Fortran programs under Open MPI do not call this MPI_Init: begins at the first collective of all processes. Not with MPI_THREAD_MULTIPLE, where
  /// ranks may disagree on the first one.
  bool begin_late(MPI_Comm comm) {
    int threads = MPI_THREAD_MULTIPLE, likeness = MPI_UNEQUAL, begun = 0, over = 0;
    PMPI_Initialized(&begun);
    PMPI_Finalized(&over);
    if (inside || begun == 0 || over != 0) return false;
    PMPI_Query_thread(&threads);
    if (threads == MPI_THREAD_MULTIPLE) return false;
    PMPI_Comm_compare(comm, MPI_COMM_WORLD, &likeness);
    if (likeness != MPI_UNEQUAL) begin();
    return is_ready_;
  }

  /// `ranks` stays empty for intercommunicators and for communicators with processes outside of MPI_COMM_WORLD, such as spawned ones.
  entry* make(MPI_Comm comm) {
    const inside_kolo here;
    auto made = std::make_unique<entry>();
    int is_inter = 0;
    PMPI_Comm_test_inter(comm, &is_inter);
    PMPI_Comm_rank(comm, &made->rank);
    PMPI_Comm_size(comm, &made->size);
    if (is_inter == 0) made->ranks = carrier_->ranks_of(comm);
    PMPI_Comm_set_attr(comm, key_, made.get());
    const std::scoped_lock lock{mutex_};
    entries_.insert(made.get());
    return made.release();
  }
  /// Times the number of ranks: after so many calls a communicator gets shared memory. Short-lived ones do without.
  static constexpr int calls_by_messages = 2;
  /// Each communicator with shared memory needs a descriptor.
  static constexpr int most_sharing = 128;

  void begin(entry& e, MPI_Comm comm, bool shares) {
    try {
      e.comm.emplace(transport{carrier_, comm, e.ranks, how(), shares});
      known_.hand_to(*e.comm);
    } catch (const kolo::error& full) {
      if (full.code() != kolo::errc::out_of_resources) throw;
      e.ranks.clear();
    }
  }
  bool has_neighbours(const entry& e) const {
    const auto nodes = carrier_->nodes().among(e.ranks).nodes();
    return std::set<int>{nodes.begin(), nodes.end()}.size() < nodes.size();
  }
  /// First an allreduce with a deadline, which reports a failed rank or a refused call like any other collective.
  void share_memory(entry& e, MPI_Comm comm) {
    int may = sharing_ < most_sharing ? 1 : 0;
    kolo::allreduce(*e.comm, std::span{&may, 1}, kolo::min);
    if (may == 0) return;
    known_.keep(*e.comm);
    e.comm.reset();
    begin(e, comm, true);
    if (e.comm && e.comm->transport().is_near()) ++sharing_, ++shared_;
  }
  /// Other ranks may wait in a call that was refused on this rank and not repeated: they get an error.
  void take_out(entry& e) {
    if (!e.comm) return;
    if (e.refused) e.comm->transport().leave("it was refused a call by its own arguments, and has not repeated it");
    known_.keep(*e.comm);
    if (e.comm->transport().is_near()) --sharing_;
    e.comm.reset();
  }
  static int forget(MPI_Comm, int, void* attribute, void*) {
    const inside_kolo here;
    auto& r = all();
    const std::unique_ptr<entry> e{static_cast<entry*>(attribute)};
    r.take_out(*e);
    const std::scoped_lock lock{r.mutex_};
    r.entries_.erase(e.get());
    return MPI_SUCCESS;
  }
  static int finalizing(MPI_Comm, int, void*, void*) {
    all().end();
    return MPI_SUCCESS;
  }

  /// If Open MPI yields while it waits (`--mca mpi_yield_when_idle 1`), each piece of a message may cost a time slice: uses
  /// few, long pieces then.
  static kolo::mpi::options how() {
    kolo::mpi::options o{.timeout = deadline()};
    const char* const yields = std::getenv("OMPI_MCA_mpi_yield_when_idle");
    if (yields && *yields == '1') o.piece_bytes = std::size_t{4} << 20;
    return o;
  }
  /// KOLO_MPI_TIMEOUT in seconds; default: a year, since MPI waits for ever.
  static std::chrono::nanoseconds deadline() {
    const char* const wish = std::getenv("KOLO_MPI_TIMEOUT");
    const double seconds = wish ? std::atof(wish) : 0;
    return seconds > 0 ? std::chrono::nanoseconds{static_cast<long long>(seconds * 1e9)} : std::chrono::hours{24 * 365};
  }

  std::mutex beginning_, mutex_;
  worked_out known_;
  std::shared_ptr<kolo::mpi::carrier> carrier_;
  std::unordered_set<entry*> entries_;
  std::atomic<long> calls_[std::size(names)][2]{};
  std::atomic<int> sharing_{0}, shared_{0};  ///< communicators that have shared memory; that have or had it
  std::atomic<bool> is_ready_{false}, is_over_{false}, has_reported_{false};
  int key_ = MPI_KEYVAL_INVALID, rank_ = -1;
};

}  // namespace under_mpi
