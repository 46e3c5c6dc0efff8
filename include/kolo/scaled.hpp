// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::scaled, a wire of fewer than 16 bits an element: kolo::wire<kolo::scaled<std::int8_t, 32>>(kolo::average).
#pragma once

#include <kolo/collective/scaled.hpp>
