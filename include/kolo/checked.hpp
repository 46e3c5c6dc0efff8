// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport under which ranks that disagree are told who calls what, and where: checked.
#pragma once

#include <kolo/observe/checked.hpp>
