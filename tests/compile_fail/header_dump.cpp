// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// To dump has a header of its own, and so hears who dumps without.
// expect: include <kolo/dump.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/dump.hpp>
#endif

auto f(kolo::threads::communicator& comm) { return kolo::dump(comm); }

int main() {}
