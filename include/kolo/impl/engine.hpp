// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All that a communicator, its calls, requests and plans do, and the transports of shm and threads. Not needed in a
// header-only program, nor for communicators of shm and threads in compiled mode;
// transports of one's own, and what wraps a transport, include it.
#pragma once

#include <kolo/impl/calls.hpp>
#include <kolo/impl/communicator.hpp>
#include <kolo/impl/grow.hpp>
#include <kolo/impl/memory.hpp>
#include <kolo/impl/node_communicator.hpp>
#include <kolo/impl/request.hpp>
#include <kolo/shm/slot_transport.hpp>

#ifdef KOLO_COMPILED
#include <kolo/impl/library.hpp>
#endif
