// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last rank of two nodes is killed between two calls or within one: its neighbour finds out through shared memory, and notifies the rest at once. killed.sh
// runs this, and checks that each other rank prints it.
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "mpi/world.hpp"

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  kolo::mpi::routed_communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = 60s, .ranks_per_node = 2}};
  const kolo::two_level<> algorithm{.nodes = kolo::topology_of(comm)};
  std::vector<float> x(std::strcmp(argv[1], "long") == 0 ? 1'000'000 : 10, 1.0f);
  const int last = comm.size() - 1;
  if (comm.rank() == last) {
    kolo::allreduce(comm, x, kolo::sum, algorithm);
    if (x[0] != static_cast<float>(comm.size())) return 1;  // alive
    if (std::strcmp(argv[2], "within") == 0)
      static_cast<void>(kolo::start_allreduce(comm, x, kolo::sum, algorithm).test());
    ::kill(::getpid(), SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::string wrong = "no error";
  try {
    for (;;) kolo::allreduce(comm, x, kolo::sum, algorithm);
  } catch (const kolo::error& e) {
    const bool soon = std::chrono::steady_clock::now() - begin < 10s;
    wrong = e.code() == kolo::errc::peer_died && e.peer() == last && soon ? "" : e.what();
  }
  std::printf("%s\n", wrong.empty() ? "peer died, as it should be" : wrong.c_str());
  std::fflush(stdout);
  ::_exit(0);  // MPI_Finalize would wait for the dead rank
}
