// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::simulate without simulate.hpp: the message names the header.
// expect: include <kolo/simulate.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/simulate.hpp>
#endif

#include <cstddef>

#ifdef KOLO_WRONG
struct network {};
#else
using kolo::simulate::network;
#endif
void f(const network& n) { kolo::simulate::run(kolo::ring::allreduce{}, 4096, std::size_t{1024}, n); }

int main() {}
