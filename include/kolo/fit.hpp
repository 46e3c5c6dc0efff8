// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables for the automatic choice: fit measures one, use_tuning names one.
#pragma once

#include <kolo/collective/fit.hpp>
