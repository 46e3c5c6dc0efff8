// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last operations of all ranks, as text: dump, and at a signal, dump_on.
#pragma once

#include <kolo/observe/dump.hpp>
