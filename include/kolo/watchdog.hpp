// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says when an operation waits for long: watchdog.
#pragma once

#include <kolo/observe/watchdog.hpp>
