// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on elements whose type and operator are known at run time only: for whoever binds a language, or writes a
// plug-in.
#pragma once

#include <kolo/collective/untyped.hpp>
#include <kolo/reduce/reduction.hpp>
#include <kolo/view/elements.hpp>
