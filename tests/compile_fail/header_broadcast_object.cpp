// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// To send objects comes with training, and so hears who sends one without.
// expect: include <kolo/train.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/train.hpp>
#endif

void f(kolo::threads::communicator& comm, int epoch) { kolo::broadcast_object(comm, epoch); }

int main() {}
