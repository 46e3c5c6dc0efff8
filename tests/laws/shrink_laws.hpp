// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::communicator::shrink, each a function that every rank calls with its communicator; it returns the law that is broken, or nothing.
#pragma once

#include <kolo/kolo.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace laws {

using namespace std::chrono_literals;

/// The sum over all ranks, by a collective that needs every pair of neighbours.
template <class C>
int count_by_sum(C& comm) {
  std::vector<int> ones(1000, 1);
  kolo::allreduce(comm, ones, kolo::sum, kolo::ring{});
  return ones.back();
}

/// Checks that `shrink` has returned rank `rank` of `size`, and that it works.
template <class C>
std::string is_whole(C& rest, int rank, int size) {
  if (rest.size() != size || rest.rank() != rank)
    return "rank " + std::to_string(rest.rank()) + " of " + std::to_string(rest.size());
  if (count_by_sum(rest) != size) return "a sum is wrong";
  auto half = rest.split(rest.rank() % 2, 0);
  return count_by_sum(half) == (size + 1 - rest.rank() % 2) / 2 ? "" : "a split communicator does not work";
}

inline constexpr auto shrinking_without_loss_keeps_all = [](auto& comm) -> std::string {
  auto rest = comm.shrink();
  return is_whole(rest, comm.rank(), comm.size());
};

/// Every third rank leaves, not the first; the others keep their order.
inline constexpr auto shrinking_leaves_out_who_left = [](auto& comm) -> std::string {
  if (comm.rank() % 3 == 1) return "";
  auto rest = comm.shrink();
  const auto stay = [](int below) { return below - (below + 1) / 3; };
  return is_whole(rest, stay(comm.rank()), stay(comm.size()));
};

/// A rank that waits in an operation gets a failure, and can call shrink.
inline constexpr auto shrinking_calls_those_who_wait = [](auto& comm) -> std::string {
  if (comm.rank() > 0) try {
      kolo::barrier(comm);
      return "the barrier ended without rank 0";
    } catch (const kolo::error& e) {
      if (e.code() != kolo::errc::peer_failed) return e.what();
    }
  auto rest = comm.shrink();
  return is_whole(rest, comm.rank(), comm.size());
};

/// The old communicator stays failed, with the first cause, and cannot be shrunk twice; the new one can fail and shrink again.
inline constexpr auto shrinking_happens_once = [](auto& comm) -> std::string {
  auto rest = comm.shrink();
  const auto ends_in = [](auto call, kolo::errc code) {
    try {
      call();
      return false;
    } catch (const kolo::error& e) {
      return e.code() == code;
    }
  };
  if (!ends_in([&] { kolo::barrier(comm); }, kolo::errc::peer_failed) && comm.size() > 1)
    return "the old communicator works";
  if (!ends_in([&] { comm.shrink(); }, kolo::errc::invalid_argument)) return "the old communicator was shrunk twice";
  auto again = rest.shrink();
  return is_whole(again, comm.rank(), comm.size());
};

}  // namespace laws
