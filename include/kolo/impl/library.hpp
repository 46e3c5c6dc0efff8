// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contents of the compiled library, listed once: impl/src.hpp instantiates them, and files that include the bodies
// as well leave them to the library in compiled mode.
#pragma once

#include <kolo/execute/self.hpp>
#include <kolo/impl/instantiate.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/train/gradient_exchange.hpp>

#ifndef KOLO_LIBRARY
#define KOLO_LIBRARY extern template
#endif

KOLO_ENGINE(KOLO_LIBRARY, kolo::shm::transport)
KOLO_ENGINE(KOLO_LIBRARY, kolo::threads::transport)
KOLO_ENGINE(KOLO_LIBRARY, kolo::self::transport)
KOLO_MEMORY(KOLO_LIBRARY, kolo::shm::transport)
KOLO_MEMORY(KOLO_LIBRARY, kolo::threads::transport)
KOLO_TRAIN(KOLO_LIBRARY, kolo::shm::transport)
KOLO_TRAIN(KOLO_LIBRARY, kolo::threads::transport)
KOLO_TRAIN(KOLO_LIBRARY, kolo::self::transport)
KOLO_LIBRARY std::shared_ptr<kolo::detail::execute::engine<kolo::self::transport>>
kolo::detail::execute::make_engine<kolo::self::transport>();
KOLO_LIBRARY void kolo::detail::launch::run_each<kolo::threads::communicator>(int, const kolo::threads::options&, void*,
                                                                              void (*)(void*,
                                                                                       kolo::threads::communicator&));
KOLO_LIBRARY int kolo::detail::launch::launch_each<kolo::shm::communicator>(int, const kolo::shm::options&, void*,
                                                                            int (*)(void*, kolo::shm::communicator&));
KOLO_LIBRARY kolo::shm::communicator kolo::shm::world<kolo::shm::communicator>(const kolo::shm::options&);
KOLO_LIBRARY kolo::shm::communicator kolo::shm::meet<kolo::shm::communicator>(int, int, std::string_view,
                                                                              const kolo::shm::options&);
KOLO_LIBRARY kolo::shm::communicator kolo::detail::launch::node_communicator_of<kolo::shm::transport>(
    kolo::detail::execute::engine<kolo::shm::transport>&, const kolo::shm::options&);
KOLO_LIBRARY kolo::shm::communicator kolo::detail::launch::node_communicator_of<kolo::threads::transport>(
    kolo::detail::execute::engine<kolo::threads::transport>&, const kolo::shm::options&);
KOLO_LIBRARY kolo::shm::communicator kolo::shm::join<kolo::shm::communicator>(std::string_view,
                                                                              const kolo::shm::options&);
KOLO_LIBRARY kolo::threads::communicator kolo::threads::join<kolo::threads::communicator>(
    std::string_view, const kolo::threads::options&);
KOLO_LIBRARY kolo::shm::communicator kolo::shm::communicator::grow<kolo::shm::transport>(std::string_view,
                                                                                         const kolo::grow_options&,
                                                                                         const kolo::call_site&);
KOLO_LIBRARY kolo::threads::communicator kolo::threads::communicator::grow<kolo::threads::transport>(
    std::string_view, const kolo::grow_options&, const kolo::call_site&);

#undef KOLO_LIBRARY
