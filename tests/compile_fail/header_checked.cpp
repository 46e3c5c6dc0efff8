// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport that is checked has a header of its own, and so hears who names it without.
// expect: includes_kolo_checked_hpp
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/checked.hpp>
#endif

kolo::communicator<kolo::checked<kolo::threads::transport>>* checked = nullptr;

int main() {}
