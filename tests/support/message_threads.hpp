// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads that send messages: for tests, without MPI, of what runs over it.
#pragma once

#include <kolo/compose/messages.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/impl/instantiate.hpp>
#include <kolo/launch/threads.hpp>

#include "support/run_ranks.hpp"

namespace testing {

using message_transport = kolo::messages<kolo::threads::transport>;
using message_communicator = kolo::communicator<message_transport>;

/// As kolo::threads::run, with communicators over T, which takes `first` before what a transport of threads takes.
template <class T, class... First>
void run_threads_over(int ranks, callable_ref<kolo::communicator<T>&> f, const kolo::threads::options& o = {},
                      First... first) {
  const kolo::detail::shm::region_shape shape{ranks, o};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  run_ranks(ranks, [&](int rank) {
    kolo::communicator<T> comm{first..., memory, region, shape, rank};
    f(comm);
  });
}

template <class F>
void run_message_threads(int ranks, F f, const kolo::threads::options& o = {}) {
  run_threads_over<message_transport>(ranks, f, o);
}

}  // namespace testing

// Its engine is compiled once, in engines.cpp, like those of kolo::compiled.
#ifdef KOLO_COMPILED
#ifndef KOLO_TEST_ENGINE
#define KOLO_TEST_ENGINE extern template
#endif
KOLO_ENGINE(KOLO_TEST_ENGINE, testing::message_transport)
#endif
