// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads with a communicator over two transports: messages, and slots.
#pragma once

#include <kolo/compose/composite.hpp>

#include "support/message_threads.hpp"

namespace testing {

template <class Rule = kolo::by_kind<kolo::kind::allreduce, kolo::kind::broadcast>>
using composite_threads = kolo::composite<message_transport, kolo::threads::transport, Rule>;

/// As kolo::threads::run.
template <class Rule = kolo::by_kind<kolo::kind::allreduce, kolo::kind::broadcast>, class F>
void run_composite_threads(int ranks, F f, const kolo::threads::options& o = {}) {
  const kolo::detail::shm::region_shape shape{ranks, o};
  kolo::detail::shm::private_mapping memory;
  const auto first = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::run(
      ranks,
      [&](auto& host) {
        host.engine()->finish_all();
        composite_threads<Rule> both{message_transport{memory, first, shape, host.rank()},
                                     host.transport().split(0, host.rank())};
        f(both);
      },
      o);
}

}  // namespace testing
