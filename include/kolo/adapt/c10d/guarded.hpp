// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The errors of a call of a process group: with the words that c10d programs look for, and reported to the other ranks.
#pragma once

#include <kolo/kolo.hpp>

#include <stdexcept>
#include <string>

namespace kolo::inline KOLO_ABI::c10d {

/// Calls f(comm, options). An exception other than kolo::error (no memory, one of PyTorch) fails the communicator,
/// because the other ranks wait for this one. Errors  std::runtime_error: it timed out.
template <class Comm, class F>
void guarded(Comm& comm, const typename Comm::options& how, const F& f) {
  try {
    f(comm, how);
  } catch (const error& e) {
    if (e.code() != errc::timeout) throw;
    throw std::runtime_error{e.what() + std::string{"; the timeout is over"}};  // c10d's word for it
  } catch (const std::exception& e) {
    comm.transport().fail({.code = errc::peer_failed, .rank = comm.rank(), .peer = comm.rank(), .text = e.what()});
    throw;
  }
}

}  // namespace kolo::inline KOLO_ABI::c10d
