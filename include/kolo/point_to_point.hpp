// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What goes from one rank to one rank: shift and permute.
#pragma once

#include <kolo/collective/permute.hpp>
