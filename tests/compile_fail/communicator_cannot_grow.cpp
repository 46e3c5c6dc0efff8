// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// grow needs a transport that can grow.
// expect: kolo: this transport cannot grow
#include <kolo/kolo.hpp>

int main() {
#ifdef KOLO_WRONG
  kolo::self::communicator comm;
#else
  auto comm = kolo::threads::join("training");
#endif
  comm = comm.grow("training", {.newcomers = 2});
}
