// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why the library takes the algorithm that it takes: explain.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/select/explain.hpp>
