// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions on a device, with the operators and elements of the host: what device communicators are made of, and calls of their own.
#pragma once

#include <kolo/cuda/combine.hpp>
#include <kolo/cuda/launch.cuh>
