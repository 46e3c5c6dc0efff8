// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::sharded_optimizer without train.hpp: the message names the header.
// expect: include <kolo/train.hpp>
#include <kolo/kolo.hpp>
#ifndef KOLO_WRONG
#include <kolo/train.hpp>
#endif

#include <span>
#include <vector>

struct parameter {
  std::span<float> value, gradient;
};
#ifdef KOLO_WRONG
struct rule {};
#else
using rule = kolo::update::sgd;
#endif

void f(kolo::threads::communicator& comm, std::vector<parameter>& parameters) {
  kolo::sharded_optimizer optimizer{comm, rule{}, parameters};
  optimizer.step();
}

int main() {}
