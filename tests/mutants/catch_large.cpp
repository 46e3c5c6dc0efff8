// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes that only vectors show which no cache holds, or pieces of several tiles.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/launch/threads.hpp>

#include <atomic>
#include <utility>
#include <vector>

namespace {

std::atomic<bool> good{true};

/// A peer is referred to nothing, and all pieces have to be in spare buffers.
struct spares_only : kolo::threads::transport {
  using kolo::threads::transport::slot_transport;
  explicit spares_only(kolo::threads::transport&& t) : slot_transport{std::move(t)} {}
  spares_only split(int color, int key) { return spares_only{slot_transport::split(color, key)}; }
  kolo::remote_ref make_remote_ref(const std::byte*, std::size_t) { return {}; }
  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const kolo::indirect& where = {}) {
    if (!where.is_spare) good = false;
    return slot_transport::commit(peer, bytes, tag, where);
  }
};

}  // namespace

int main() {
  kolo::threads::run(2, [](auto& host) {
    kolo::communicator<spares_only> comm{spares_only{host.transport().split(0, host.rank())}};
    const std::vector<int> x(2'200'001, comm.rank());
    std::vector<int> all(2 * x.size());
    kolo::allgather(comm, x, all);
    if (all.front() != 0 || all.back() != 1) good = false;
  });
  for (const std::size_t n : {std::size_t{50'000}, std::size_t{2'200'001}})
    kolo::threads::run(3, [&](auto& comm) {
      std::vector<float> x(n), y(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000) + static_cast<float>(comm.rank());
      kolo::allreduce(comm, x, y, kolo::sum, kolo::two_shot{});
      kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{});
      for (std::size_t i = 0; i < n; ++i)
        if (x[i] != 3 * static_cast<float>(i % 1000) + 3 || y[i] != x[i]) good = false;
      if (comm.rank() != 1) x.assign(n, 0);
      kolo::broadcast(comm, x, 1, kolo::one_shot{});
      if (x != y) good = false;
    });
  return good ? 0 : 1;
}
