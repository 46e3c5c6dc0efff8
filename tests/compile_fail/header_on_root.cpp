// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one rank does alone comes with training, and so hears who asks for it without.
// expect: include <kolo/train.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/train.hpp>
#endif

bool f(kolo::threads::communicator& comm) {
  return kolo::on_root(comm, [] {});
}

int main() {}
