// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on several hosts: runs the installed mpiexec.
#pragma once

#include "settings.hpp"

/// Replaces this process by mpiexec; returns only if that fails.
int run_on_hosts(const settings& s);
