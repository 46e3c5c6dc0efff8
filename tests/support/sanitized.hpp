// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says where every access takes many times as long, so that a test may do less of the same: a compiler's sanitizer is on.
#pragma once

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // gcc's words
#define KOLO_SANITIZED 1
#elif defined(__has_feature)  // clang's
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define KOLO_SANITIZED 1
#endif
#endif

namespace testing {
#ifdef KOLO_SANITIZED
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
}  // namespace testing
