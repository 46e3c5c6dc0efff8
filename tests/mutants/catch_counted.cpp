// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the transport that counts: a run must send what the schedule's cost says.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/cost.hpp>

#include <vector>

#include "support/expect.hpp"
#include "support/message_threads.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

template <class C, class S>
void compare(const C& comm, const S& schedule, std::size_t bytes) {
  const cost said = cost_of(schedule, comm.rank(), comm.size(), bytes);
  const traffic counted = comm.transport().total();
  expect(counted.messages_sent == said.messages && counted.bytes_sent == said.sent &&
         counted.bytes_received == said.received);
}

template <class T>
void try_it(int ranks) {
  static_assert(!SharedMemoryTransport<T>, "over shared memory other messages are sent than the schedule says");
  testing::run_threads_over<T>(ranks, [](auto& comm) {
    std::vector<unsigned char> x(100, 1);
    kolo::allreduce(comm, x, bit_xor, circulant{});
    compare(comm, circulant::allreduce{}, 100);
    comm.transport().forget();
    kolo::broadcast(comm, x, 0, binomial{});
    compare(comm, binomial::broadcast{}, 100);
    auto some = comm.split(0, 0);
    expect(some.transport().total() == traffic{});
  });
}

}  // namespace

int main() {
  for (const int ranks : {2, 3, 5}) {
    try_it<counted<messages<threads::transport>>>(ranks);
    try_it<counted<threads::transport>>(ranks);
  }
  return good ? 0 : 1;
}
