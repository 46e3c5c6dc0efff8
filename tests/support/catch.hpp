// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catch2, whichever of 2.13 and 3 is installed. Its macros stay on the main thread.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
