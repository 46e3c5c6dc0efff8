// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::explain without explain.hpp: the message names the header.
// expect: include <kolo/explain.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/explain.hpp>
#endif

auto f(kolo::threads::communicator& comm) { return kolo::explain(comm, kolo::kind::allreduce, 1024); }

int main() {}
