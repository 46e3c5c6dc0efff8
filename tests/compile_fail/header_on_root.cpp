// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::on_root without train.hpp: the message names the header.
// expect: include <kolo/train.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/train.hpp>
#endif

bool f(kolo::threads::communicator& comm) {
  return kolo::on_root(comm, [] {});
}

int main() {}
