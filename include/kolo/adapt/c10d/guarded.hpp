// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a call of a process group ends badly: in words that programs of c10d look for, and the other ranks are told.
#pragma once

#include <kolo/kolo.hpp>

#include <stdexcept>
#include <string>

namespace kolo::inline KOLO_ABI::c10d {

/// f(comm, options). What else than a kolo::error it throws (of no memory, of PyTorch's own) fails the communicator:
/// the others wait for this rank.
template <class Comm, class F>
void guarded(Comm& comm, const typename Comm::options& how, const F& f) {
  try {
    f(comm, how);
  } catch (const error& e) {
    if (e.code() != errc::timeout) throw;
    throw std::runtime_error{e.what() + std::string{"; the timeout is over"}};  // c10d's word
  } catch (const std::exception& e) {
    failure own;
    own.code = errc::peer_failed;
    own.rank = own.peer = comm.rank();
    own.text = std::string{e.what()};
    comm.transport().fail(own);
    throw;
  }
}

}  // namespace kolo::inline KOLO_ABI::c10d
