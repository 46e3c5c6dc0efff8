// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::dump without dump.hpp: the message names the header.
// expect: include <kolo/dump.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/dump.hpp>
#endif

auto f(kolo::threads::communicator& comm) { return kolo::dump(comm); }

int main() {}
