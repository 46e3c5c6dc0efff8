// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a schedule takes on a network that one describes: simulate::run. (Ranks in virtual time:
// simulate/simulated.hpp.)
#pragma once

#include <kolo/simulate/run.hpp>
