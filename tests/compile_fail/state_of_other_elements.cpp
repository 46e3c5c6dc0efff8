// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An optimizer's state must name its element type; rules compute in float and double; vector<bool> cannot be sent.
// expect: kolo: kolo::replicated keeps the state of floats; for doubles write kolo::replicated<Rule, double>
// expect: kolo: an update rule must have states and rule\(value, gradient, state, step\); those of kolo::update take float and double
// expect: kolo: a std::vector<bool> packs its elements into bits, so they have no addresses: send a std::vector<char>
#include <kolo/kolo.hpp>

#include <kolo/train.hpp>

#include <span>
#include <vector>

#ifdef KOLO_WRONG
using stated = kolo::replicated<kolo::update::adamw>;
using element = kolo::bfloat16;
using flag = bool;
#else
using stated = kolo::replicated<kolo::update::adamw, double>;
using element = float;
using flag = char;
#endif

void f(kolo::threads::communicator& comm, std::span<double> wide, std::span<element> narrow, std::vector<flag>& flags) {
  stated{{}}.step(0, wide, wide);
  kolo::replicated<kolo::update::sgd, element>{{}}.step(0, narrow, narrow);
  kolo::broadcast_object(comm, flags);
}

int main() {}
