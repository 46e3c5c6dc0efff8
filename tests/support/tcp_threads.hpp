// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads, connected over TCP on this host: the transport of examples/own_transport.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>
#include <kolo/launch/rethrow_cause.hpp>

#include <exception>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "../examples/own_transport/tcp.hpp"

namespace testing {

/// As kolo::threads::run. f begins when all ranks have their communicators: a rank that is ahead may leave, or fail.
template <class F>
void run_tcp_threads(int ranks, F f, const tcp::options& o = {.timeout = std::chrono::seconds{60}},
                     const std::string& where = "127.0.0.1:0") {
  tcp::socket listener = tcp::listen_at(where);
  const std::string address = tcp::text(tcp::endpoint_of(listener));
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  std::latch made{ranks};
  {
    std::vector<std::jthread> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.emplace_back([&, rank] {
        bool is_made = false;
        try {
          tcp::communicator comm{address, rank, ranks, o, rank == 0 ? std::move(listener) : tcp::socket{}};
          is_made = true;
          made.arrive_and_wait();
          f(comm);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
          if (!is_made) made.count_down();
        }
      });
  }
  kolo::detail::launch::rethrow_cause(thrown);
}

}  // namespace testing
