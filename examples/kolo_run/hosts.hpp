// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks on several hosts: hands over to the mpiexec that is here.
#pragma once

#include "settings.hpp"

/// Becomes mpiexec; returns only if that fails.
int run_on_hosts(const settings& s);
