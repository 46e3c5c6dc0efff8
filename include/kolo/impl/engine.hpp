// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bodies of a communicator, its calls, requests and plans, and the transports of shm and threads. Not needed in a
// header-only program, nor for communicators of shm and threads in compiled mode; user-defined transports, and wrappers
// of transports, include it. In compiled mode also those of optimizers over such a transport.
#pragma once

#include <kolo/impl/calls.hpp>
#include <kolo/impl/communicator.hpp>
#include <kolo/impl/grow.hpp>
#include <kolo/impl/memory.hpp>
#include <kolo/impl/node_communicator.hpp>
#include <kolo/impl/request.hpp>
#include <kolo/shm/slot_transport.hpp>

#ifdef KOLO_COMPILED
#include <kolo/train/impl/bucket_queue.hpp>
#include <kolo/train/impl/gradient_exchange.hpp>
#include <kolo/train/impl/leaf_sums.hpp>

#include <kolo/impl/library.hpp>
#endif
