// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads, connected over TCP on this host: the transport of examples/own_transport.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <string>

#include "../examples/own_transport/tcp.hpp"
#include "support/run_ranks.hpp"

namespace testing {

/// As kolo::threads::run.
template <class F>
void run_tcp_threads(int ranks, F f, const tcp::options& o = {.timeout = std::chrono::seconds{60}},
                     const std::string& where = "127.0.0.1:0") {
  tcp::socket listener = tcp::listen_at(where);
  const std::string address = tcp::text(tcp::endpoint_of(listener));
  run_when_all_have_come(
      ranks,
      [&](int rank) {
        return tcp::communicator{address, rank, ranks, o, rank == 0 ? std::move(listener) : tcp::socket{}};
      },
      f);
}

}  // namespace testing
