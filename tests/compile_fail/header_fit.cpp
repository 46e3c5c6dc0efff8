// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::fit and use_tuning without fit.hpp: the message names the header.
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
