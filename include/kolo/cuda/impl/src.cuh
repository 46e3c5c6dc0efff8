// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the compiled library (impl/src.hpp) that nvcc compiles, communicators for device views over threads and
// shared memory: for one file of a program
//
//     #include <kolo/cuda/impl/src.cuh>
//
// and another with impl/src.hpp. With -DKOLO_COMPILED, files that include threads.cuh and shm.cuh then compile only
// their calls and kernels.
#pragma once

#ifndef KOLO_COMPILED
#error "kolo/cuda/impl/src.cuh: define KOLO_COMPILED for all files of the program (-DKOLO_COMPILED)"
#endif

#include <kolo/cuda/reduce.cuh>

#include <kolo/cuda/impl/library.hpp>
