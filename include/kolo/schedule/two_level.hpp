// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two levels: one algorithm inside the nodes and another between them, on one lane or several.
#pragma once

#include <kolo/schedule/two_level/alltoall.hpp>
#include <kolo/schedule/two_level/family.hpp>
#include <kolo/schedule/two_level/parts.hpp>
#include <kolo/schedule/two_level/vector.hpp>
