// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of one host as child processes: starts them, forwards their output and signals to them, waits for all of them.
#pragma once

#include "settings.hpp"

/// Returns 0 if all ranks returned 0, otherwise the status of the rank that failed first: 128 + n for signal n.
int run_ranks(const settings& s);
