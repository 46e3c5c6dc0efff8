// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of the collective of any schedule, on bytes, for tests that check which ranks exchange messages and ignore the result.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/point_to_point.hpp>

#include <vector>

namespace testing {

/// `each`: the bytes of the vector, or of each rank's part.
template <class C, class S>
void any_call(C& comm, const S& schedule, std::size_t each) {
  using enum kolo::kind;
  constexpr auto K = S::collective;
  const auto whole = each * static_cast<std::size_t>(comm.size());
  const std::size_t mine = K == reduce_scatter ? kolo::block(each, comm.size(), comm.rank()).count : each;
  const std::vector<unsigned char> in(K == scatter || K == alltoall ? whole : each, 1);
  std::vector<unsigned char> out(K == allgather || K == gather || K == alltoall ? whole : mine), x = in;
  const auto op = kolo::bit_xor;
  if constexpr (K == allreduce) kolo::allreduce(comm, in, out, op, schedule);
  else if constexpr (K == reduce_scatter) kolo::reduce_scatter(comm, in, out, op, schedule);
  else if constexpr (K == allgather) kolo::allgather(comm, in, out, schedule);
  else if constexpr (K == broadcast) kolo::broadcast(comm, x, 0, schedule);
  else if constexpr (K == reduce) kolo::reduce(comm, in, out, op, 0, schedule);
  else if constexpr (K == gather) kolo::gather(comm, in, out, 0, schedule);
  else if constexpr (K == scatter) kolo::scatter(comm, in, out, 0, schedule);
  else if constexpr (K == alltoall) kolo::alltoall(comm, in, out, schedule);
  else if constexpr (K == scan) kolo::scan(comm, in, out, op, schedule);
  else if constexpr (K == exclusive_scan) kolo::exclusive_scan(comm, in, out, op, schedule);
  else if constexpr (K == permutation) kolo::permute(comm, in, out, schedule);
  else kolo::barrier(comm, schedule);
}

/// Does rank r send or receive in that round?
template <class S>
bool takes_part(const S& schedule, int r, int p, int round) {
  for (const kolo::transfer& t : kolo::step{schedule.at(r, p, round)})
    if ((t.to.count > 0 && t.to.first != r) || (t.from.count > 0 && t.from.first != r)) return true;
  return false;
}

}  // namespace testing
