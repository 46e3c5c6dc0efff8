// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In compiled mode: a transport that the library does not have, without the engine's header.
#include <kolo/kolo.hpp>

struct of_my_own {
  struct options {
    std::chrono::nanoseconds timeout{};
  };
};

int ranks(kolo::communicator<of_my_own>& comm) { return comm.size(); }
