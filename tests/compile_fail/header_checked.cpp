// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::checked without checked.hpp: the message names the header.
// expect: includes_kolo_checked_hpp
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/checked.hpp>
#endif

kolo::communicator<kolo::checked<kolo::threads::transport>>* checked = nullptr;

int main() {}
