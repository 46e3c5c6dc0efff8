// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The version of the library; ranks compare it when they meet.
#pragma once

#include <kolo/config.hpp>

namespace kolo::inline KOLO_ABI {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 2;
inline constexpr int version_patch = 0;

}  // namespace kolo::inline KOLO_ABI
