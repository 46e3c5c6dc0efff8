// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says where every access takes many times as long, so that a test may do less of the same: a compiler's sanitizer is on.
#pragma once

#if defined(__SANITIZE_THREAD__)  // gcc's words
#define KOLO_THREAD_SANITIZED 1
#elif defined(__SANITIZE_ADDRESS__)
#define KOLO_SANITIZED 1
#elif defined(__has_feature)  // clang's
#if __has_feature(thread_sanitizer)
#define KOLO_THREAD_SANITIZED 1
#elif __has_feature(address_sanitizer)
#define KOLO_SANITIZED 1
#endif
#endif
#ifdef KOLO_THREAD_SANITIZED
#define KOLO_SANITIZED 1
#endif

namespace testing {
#ifdef KOLO_SANITIZED
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
/// It sees nothing of what happens between processes.
#ifdef KOLO_THREAD_SANITIZED
inline constexpr bool is_thread_sanitized = true;
#else
inline constexpr bool is_thread_sanitized = false;
#endif
}  // namespace testing
