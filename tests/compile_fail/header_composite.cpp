// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::composite without composite.hpp: the message names the header.
// expect: includes_kolo_composite_hpp
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/composite.hpp>
#endif

using composite = kolo::composite<kolo::threads::transport, kolo::threads::transport, struct rule>;
composite* both = nullptr;

int main() {}
