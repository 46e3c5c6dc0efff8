// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// To fit a table, or to name one, has a header of its own, and so hears who does it without.
// expect: include <kolo/fit.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/fit.hpp>
#endif

void f(kolo::threads::communicator& comm) {
  kolo::fit(comm);
  kolo::use_tuning(comm, kolo::tuning{});
}

int main() {}
