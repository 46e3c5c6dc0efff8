// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on elements whose type and operator are known at run time only: for bindings of other languages and for
// plug-ins.
#pragma once

#include <kolo/collective/untyped.hpp>
#include <kolo/reduce/reduction.hpp>
#include <kolo/view/elements.hpp>
