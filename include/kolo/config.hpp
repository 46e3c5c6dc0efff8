// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What differs between compilers: the only place where they are told apart.
#pragma once

#if defined(__cplusplus) && __cplusplus < 202002L
#error "kolo needs C++20: -std=c++20, by g++ 11 or clang 14 or a later one"
#elif defined(__cplusplus) && !defined(__cpp_exceptions)
#error "kolo reports failures by exceptions: compile without -fno-exceptions"
#endif

/// The inline namespace of everything here: programs that contain two versions, or kolo compiled in two ways
/// (impl/src.hpp), keep them apart by it.
#ifndef KOLO_ABI
#ifdef KOLO_COMPILED
#define KOLO_ABI v0_compiled
#else
#define KOLO_ABI v0
#endif
#endif

/// Headers declare, and leave bodies to others: in compiled mode to the library (impl/src.hpp), and where nvcc reads a
/// file once more, for the device, to what it has read for the host.
#if defined(KOLO_COMPILED) || defined(__CUDA_ARCH__)
#define KOLO_DECLARES
#endif

/// Annotates leaf functions (operators, index arithmetic, element types) that also run on a CUDA device.
#if defined(__CUDACC__)
#define KOLO_HOST_DEVICE __host__ __device__
#else
#define KOLO_HOST_DEVICE
#endif

/// Tells the processor that this is a spin loop.
#if defined(__x86_64__) || defined(__i386__)
#define KOLO_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define KOLO_PAUSE() ([] { __asm__ __volatile__("yield"); }())  // an expression, as the others are
#else
#define KOLO_PAUSE() ((void)0)
#endif

/// Fetches a line that this processor is going to write, and does not wait for it.
#if defined(__x86_64__)
#define KOLO_PREFETCH_TO_WRITE(p) __asm__ __volatile__("prefetchw %0" : : "m"(*(p)))
#else
#define KOLO_PREFETCH_TO_WRITE(p) __builtin_prefetch(p, 1)
#endif

/// Before a loop: one iteration does not read what another one writes, so it may be vectorised without a check at run
/// time. (Four vectors in a row: g++ does not unroll by itself, and a jump after each vector may take twice the time of
/// what it jumps over.)
#if defined(__CUDACC__)
#define KOLO_IVDEP
#elif defined(__clang__)
#if __has_feature(undefined_behavior_sanitizer) || (defined(__x86_64__) && !defined(__SSE2__))
#define KOLO_IVDEP  // clang cannot vectorise these loops then, and warns if it is told to
#else
#define KOLO_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#endif
#elif defined(__GNUC__)
#define KOLO_IVDEP _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#else
#define KOLO_IVDEP
#endif

/// Before a function: where a sum takes a product, both are rounded, also in what is inlined there. g++ fuses the two
/// where the processor can, but in one loop this product and in another one that. (clang fuses what one expression
/// says, everywhere alike.)
#if defined(__FP_FAST_FMAF) && !defined(__clang__)
#define KOLO_UNFUSED [[gnu::optimize("fp-contract=off")]]
#else
#define KOLO_UNFUSED
#endif

/// Whether loops that are worth it are compiled twice, for the processor that the program is compiled for and for one
/// with AVX2, to be chosen from when it runs (reduce/loops.hpp). KOLO_TARGET("avx2"), before a function: it is for
/// processors that have this.
#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__AVX2__) && !defined(__CUDACC__)
#define KOLO_CHOOSES_VECTORS 1
#define KOLO_TARGET(features) [[gnu::target(features)]]
#else
#define KOLO_CHOOSES_VECTORS 0
#define KOLO_TARGET(features)
#endif
