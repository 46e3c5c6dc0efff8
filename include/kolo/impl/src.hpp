// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiled library, for one source file of a program: `#define KOLO_COMPILED` for all of them (-DKOLO_COMPILED),
// and in one
//
//     #include <kolo/impl/src.hpp>
//
// The others then compile neither engine nor transports of communicators over shared memory and threads. With CMake:
// link kolo::compiled.
#pragma once

#ifndef KOLO_COMPILED
#error "kolo/impl/src.hpp is for compiled mode: define KOLO_COMPILED for all files of the program (-DKOLO_COMPILED)"
#endif
#define KOLO_LIBRARY template

#include <kolo/impl/engine.hpp>
#include <kolo/impl/launch.hpp>
#include <kolo/impl/library.hpp>
#include <kolo/reduce/reduction.hpp>
#include <kolo/shm/slot_transport.hpp>

template kolo::kernel kolo::detail::reduce::kernel_by_name<kolo::reduction>(kolo::element_type, kolo::reduction);
