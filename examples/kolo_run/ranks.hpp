// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of one host as child processes: starts them, forwards what they write and what signals come, waits for all of them.
#pragma once

#include "settings.hpp"

/// Returns 0 if all returned 0, else the status of the first that failed: 128 + n for signal n.
int run_ranks(const settings& s);
