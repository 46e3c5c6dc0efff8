// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the ranks of another communicator set up shared memory (launch/processes.hpp).
#pragma once

#include <kolo/impl/communicator.hpp>
#include <kolo/launch/meet.hpp>
#include <kolo/launch/processes.hpp>

namespace kolo::inline KOLO_ABI::detail::launch {

template <class T>
kolo::shm::communicator node_communicator_of(execute::engine<T>& e, const kolo::shm::options& o) {
  const auto here = e.begin_alone("node_communicator");
  return kolo::shm::communicator{make_node_transport(e.transport, o, "node_communicator")};
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
