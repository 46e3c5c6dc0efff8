// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads of one process: the reference model, and the one that the sanitizers see.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <exception>
#include <thread>

namespace kolo::inline KOLO_ABI::threads {

using transport = slot_transport<private_mapping>;
using communicator = kolo::communicator<transport>;

using options = group_options;

namespace detail {

/// Of what the ranks threw, what explains the rest: the first that does not merely say that another rank failed.
inline void rethrow_cause(const std::vector<std::exception_ptr>& thrown) {
  std::exception_ptr any;
  for (const auto& e : thrown) {
    if (!e) continue;
    if (!any) any = e;
    try {
      std::rethrow_exception(e);
    } catch (const error& consequence) {
      if (consequence.code() != errc::peer_failed && consequence.code() != errc::peer_left) throw;
    }
  }
  if (any) std::rethrow_exception(any);
}

}  // namespace detail

/// Runs f(comm) on `ranks` threads, each with its communicator, and waits for all of them.
/// Throws what a rank threw (the cause, where one failure led to others); invalid_argument for less than one rank.
template <class F>
void run(int ranks, F f, const options& o = {}) {
  if (ranks < 1)
    throw error{errc::invalid_argument, "threads::run needs at least one rank, not " + std::to_string(ranks)};
  const kolo::detail::region_shape shape{ranks, o};
  private_mapping memory;
  const auto region = transport::initialise(memory, shape);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.emplace_back([&, rank] {
        try {
          communicator comm{memory, region, shape, rank};
          const auto unsaid = comm.engine()->unsaid;
          f(comm);
          unsaid->say();
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  detail::rethrow_cause(thrown);
}

}  // namespace kolo::inline KOLO_ABI::threads
