// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads of one process: the reference model, and the one that sanitizers can check.
#pragma once

#include <kolo/shm/group.hpp>

#include <concepts>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::launch {
/// Runs `call(f, comm)` on each thread (impl/launch.hpp). (A template, so that none of it is compiled until it is
/// called.)
template <class Comm>
void run_each(int ranks, const threads::options& o, void* f, void (*call)(void* f, Comm& comm));
}  // namespace kolo::inline KOLO_ABI::detail::launch

namespace kolo::inline KOLO_ABI::threads {

/// Runs f(comm) on `ranks` threads, each with its communicator, and waits for all of them. Throws the exception of a
/// rank (the cause, if one failure led to others); invalid_argument for less than one rank, or more than 16,384, and
/// slots of more than 4 GiB; out_of_resources if not all threads can be started: those that were get peer_died for the
/// others.
template <class F>
void run(int ranks, F f, const options& o = {}) {
  detail::launch::run_each<communicator>(ranks, o, &f,
                                         [](void* g, communicator& comm) { (*static_cast<F*>(g))(comm); });
}

/// Joins this thread to a group of threads of this process, when they call `comm.grow(meeting)`: as `kolo::shm::join`.
template <std::same_as<communicator> Comm = communicator>
Comm join(std::string_view meeting, const options& o = {});

}  // namespace kolo::inline KOLO_ABI::threads

#ifndef KOLO_DECLARES
#include <kolo/impl/launch.hpp>
#endif
