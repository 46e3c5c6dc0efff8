// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last rank is killed between two calls or within one: the others get peer_died with its rank, before the deadline. killed.sh runs this, and checks that
// each other rank prints it.
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "mpi/world.hpp"

using namespace std::chrono_literals;

namespace {

/// Empty if peer_died named the last rank before the deadline; otherwise what was thrown.
std::string end_of_waiting(kolo::mpi::communicator& comm, std::vector<float>& x) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    for (;;) kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
  } catch (const kolo::error& e) {
    const bool right = e.code() == kolo::errc::peer_died && e.peer() == comm.size() - 1;
    const bool soon = std::chrono::steady_clock::now() - begin < 10s;
    return right && soon ? "" : e.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = 60s}};
  const std::size_t count = std::strcmp(argv[1], "long") == 0 ? 1'000'000 : 10;
  std::vector<float> x(count, 1.0f);
  if (comm.rank() == comm.size() - 1) {
    kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
    if (x[0] != static_cast<float>(comm.size())) return 1;  // alive
    if (std::strcmp(argv[2], "within") == 0)
      static_cast<void>(kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{}).test());
    ::kill(::getpid(), SIGKILL);
  }
  const auto wrong = end_of_waiting(comm, x);
  std::printf("%s\n", wrong.empty() ? "peer died, as it should be" : wrong.c_str());
  std::fflush(stdout);
  ::_exit(0);  // MPI_Finalize would wait for the dead rank
}
