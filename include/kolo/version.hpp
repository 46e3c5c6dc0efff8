// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The version of the library; ranks compare it when they meet.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI {

/// The version, 0.2.0: the same numbers as the project's in CMake.
inline constexpr int version_major = 0;
/// See version_major. While that is 0, a minor version may change what programs say.
inline constexpr int version_minor = 2;
/// See version_major.
inline constexpr int version_patch = 0;

}  // namespace kolo::inline KOLO_ABI
