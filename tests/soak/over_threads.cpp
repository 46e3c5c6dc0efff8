// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads whose pieces are late and out of order.
#include "soak/epoch.hpp"

void soak::over_threads(const outline& o) {
  kolo::threads::run(o.ranks,
                     [&](auto& whole) {
                       kolo::communicator<kolo::faulty<kolo::threads::transport>> comm{std::move(whole.transport())};
                       play(comm, o);
                     },
                     {.timeout = std::chrono::seconds{60}, .slot_bytes = o.slot_bytes});
}
