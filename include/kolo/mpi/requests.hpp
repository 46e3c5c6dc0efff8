// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests of MPI that have not finished, in reused entries.
#pragma once

#include <kolo/mpi/handles.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

namespace kolo::inline KOLO_ABI::mpi {

/// Identifies a request, also after another one has reused its entry.
struct ticket {
  std::uint32_t index = 0;
  std::uint64_t number = 0;  ///< 0: nothing, which is done
};

}  // namespace kolo::inline KOLO_ABI::mpi

namespace kolo::inline KOLO_ABI::detail::mpi {

enum class role : unsigned char { outgoing, incoming, collective };

/// Allocates only when more requests are under way than ever before, and then for many more: how many are at once is a
/// matter of chance.
class requests {
 public:
  /// `start(MPI_Request*)` starts it and returns MPI's code. `bytes`: what must arrive, of a receive.
  kolo::mpi::ticket post(role what, std::size_t bytes, const char* function, int rank, int peer, auto start) {
    if (free_.empty()) make_more();
    const auto index = free_.back();
    auto& e = all_[index];
    check(start(&e.request), function, rank, peer);
    free_.pop_back();
    e.what = what;
    e.bytes = bytes;
    e.peer = peer;
    e.number = ++last_;
    return {index, e.number};
  }

  /// Has it ended? Makes progress on everything.
  bool done(const kolo::mpi::ticket& t, int rank) {
    if (t.number == 0 || all_[t.index].number != t.number) return true;
    auto& e = all_[t.index];
    MPI_Status status;
    int flag = 0;
    const int code = MPI_Test(&e.request, &flag, &status);
    if (code == MPI_SUCCESS && flag == 0) return false;
    take_back(e, t.index);
    check(code, "MPI_Test", rank);
    if (e.what == role::incoming) check_length(e, status, rank);
    return true;
  }

  /// After a failure: cancels receives, and waits a little until MPI does not touch their memory any more, nor that of
  /// messages which are on their way already. Returns how many requests still use their memory.
  std::size_t cancel_all(std::chrono::nanoseconds writers_within, std::chrono::nanoseconds readers_within) {
    for (auto& e : all_)
      if (e.number != 0 && e.what == role::incoming) MPI_Cancel(&e.request);
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const auto left = in_flight();
      const auto waited = std::chrono::steady_clock::now() - begin;
      if ((left.writers == 0 || waited > writers_within) && (left.readers == 0 || waited > readers_within))
        return left.all();
      std::this_thread::yield();
    }
  }
  /// How many requests still write to their memory, or read it.
  std::size_t in_use() { return in_flight().all(); }

 private:
  struct entry {
    MPI_Request request = MPI_REQUEST_NULL;
    std::uint64_t number = 0;  ///< 0: free
    std::size_t bytes = 0;
    int peer = -1;
    role what = role::outgoing;
  };

  struct users {
    std::size_t writers = 0, readers = 0;
    std::size_t all() const { return writers + readers; }
  };
  users in_flight() {
    users left;
    for (std::uint32_t index = 0; index < all_.size(); ++index) {
      auto& e = all_[index];
      if (e.number == 0) continue;
      int flag = 0;
      if (MPI_Test(&e.request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0) take_back(e, index);
      else ++(e.what == role::outgoing ? left.readers : left.writers);
    }
    return left;
  }

  void make_more() {
    constexpr std::size_t more = 32;
    all_.resize(all_.size() + more);
    free_.reserve(all_.size());
    for (std::size_t i = 1; i <= more; ++i) free_.push_back(std::uint32_t(all_.size() - i));
  }
  void take_back(entry& e, std::uint32_t index) {
    e.number = 0;
    free_.push_back(index);
  }

  static void check_length(const entry& e, const MPI_Status& status, int rank) {
    MPI_Count arrived = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &arrived);
    if (arrived == static_cast<MPI_Count>(e.bytes)) return;
    throw error{failure{.code = errc::mismatch,
                        .rank = rank,
                        .peer = e.peer,
                        .text = "rank " + std::to_string(e.peer) + " sent " + std::to_string(arrived) +
                                " bytes, where " + std::to_string(e.bytes) + " were expected"}};
  }

  std::deque<entry> all_;  // MPI may keep addresses: entries stay where they are
  std::vector<std::uint32_t> free_;
  std::uint64_t last_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::mpi
