// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiled library consists of, once: impl/src.hpp makes it, and what includes the bodies as well leaves it to the library in compiled mode.
#pragma once

#include <kolo/execute/self.hpp>
#include <kolo/impl/instantiate.hpp>

#ifndef KOLO_LIBRARY
#define KOLO_LIBRARY extern template
#endif

KOLO_ENGINE(KOLO_LIBRARY, kolo::shm::transport)
KOLO_ENGINE(KOLO_LIBRARY, kolo::threads::transport)
KOLO_ENGINE(KOLO_LIBRARY, kolo::self::transport)
KOLO_MEMORY(KOLO_LIBRARY, kolo::shm::transport)
KOLO_MEMORY(KOLO_LIBRARY, kolo::threads::transport)
KOLO_LIBRARY kolo::shm::communicator kolo::shm::detail::neighbours_under<kolo::shm::transport>(
    kolo::detail::engine<kolo::shm::transport>&, const kolo::shm::options&);
KOLO_LIBRARY kolo::shm::communicator kolo::shm::detail::neighbours_under<kolo::threads::transport>(
    kolo::detail::engine<kolo::threads::transport>&, const kolo::shm::options&);

#undef KOLO_LIBRARY
