// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The source file of kolo::compiled.
#include <kolo/impl/src.hpp>
