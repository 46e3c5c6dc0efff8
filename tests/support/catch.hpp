// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catch2 2.13 or 3, whichever is installed. Its macros are used on the main thread only.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
