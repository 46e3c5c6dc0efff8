// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// broadcast_object without train.hpp: the message names the header.
// expect: include <kolo/train.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/train.hpp>
#endif

void f(kolo::threads::communicator& comm, int epoch) { kolo::broadcast_object(comm, epoch); }

int main() {}
