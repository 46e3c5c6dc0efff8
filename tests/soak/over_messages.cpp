// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that send messages, late and out of order.
#include <kolo/compose/messages.hpp>
#include "soak/epoch.hpp"

void soak::over_messages(const outline& o) {
  on_processes<kolo::faulty<kolo::messages<kolo::shm::transport>>>(o, [&](auto& comm) { play(comm, o); });
}
