// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the use of memory when a rank is stopped while it copies a piece of it.
// built with others: ranks
#include "processes/stopped_in_a_piece.hpp"

using namespace testing;

int main() {
  ::alarm(90);  // ends a wait that never ends
  return (who_fails_lets_go() + changed_operands_are_noticed() + threads_are_waited_for() +
          symmetric_memory_is_said_to_be_in_use() + heap_is_not_written())
                 .empty()
             ? 0
             : 1;
}
