// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All headers beside this one. What reads schedules (`schedule/verify.hpp`, `draw.hpp`) is included by its own name.
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
