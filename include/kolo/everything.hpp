// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All of kolo that needs no MPI, CUDA or NCCL.
#pragma once

#include <kolo/kolo.hpp>

#include <kolo/checked.hpp>
#include <kolo/composite.hpp>
#include <kolo/dump.hpp>
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>
#include <kolo/point_to_point.hpp>
#include <kolo/scaled.hpp>
#include <kolo/simulate.hpp>
#include <kolo/train.hpp>
#include <kolo/untyped.hpp>
#include <kolo/watchdog.hpp>
