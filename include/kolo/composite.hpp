// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two transports under one communicator: composite.
#pragma once

#include <kolo/compose/composite.hpp>
