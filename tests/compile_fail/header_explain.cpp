// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// To explain has a header of its own, and so hears who asks without.
// expect: include <kolo/explain.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/explain.hpp>
#endif

auto f(kolo::threads::communicator& comm) { return kolo::explain(comm, kolo::kind::allreduce, 1024); }

int main() {}
