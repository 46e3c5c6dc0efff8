// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the ranks of another communicator meet over shared memory (launch/processes.hpp).
#pragma once

#include <kolo/impl/communicator.hpp>
#include <kolo/launch/meet.hpp>
#include <kolo/launch/processes.hpp>

namespace kolo::inline KOLO_ABI::shm::detail {

template <class T>
communicator neighbours_under(kolo::detail::engine<T>& e, const options& o) {
  e.finish_all();
  return communicator{meet_neighbours(e.transport, o, "among_neighbours")};
}

}  // namespace kolo::inline KOLO_ABI::shm::detail
