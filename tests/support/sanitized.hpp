// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a compiler's sanitizer is on: then every access takes many times as long, and a test may do less.
#pragma once

#if defined(__SANITIZE_THREAD__)  // gcc's macros
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
/// The thread sanitizer does not see what happens between processes.
#ifdef KOLO_THREAD_SANITIZED
inline constexpr bool is_thread_sanitized = true;
#else
inline constexpr bool is_thread_sanitized = false;
#endif
}  // namespace testing
