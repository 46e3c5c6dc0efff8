// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When a rank dies, every other rank gets an error that names the dead rank, the operation and the round.
//
// Rank 2 kills itself before the third allreduce. Ranks 0 and 1 catch the error and return normally; launch prints on
// standard error how rank 2 ended, and returns a nonzero status.
#include "expect.hpp"

#include <kolo/kolo.hpp>

#include <sys/mman.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

static_assert(std::is_base_of_v<std::runtime_error, kolo::error>);

struct notes {  // in shared memory, so that the parent can read it after the processes have ended
  bool reported[3];
  int peer[3];
};

int main() {
  void* shared = ::mmap(nullptr, sizeof(notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  notes& seen = *static_cast<notes*>(shared);

  const int status = kolo::shm::launch(3, [&](auto& comm) {
    const auto report = [&](int peer, std::string_view operation, int round, int rank, const char* what) {
      expect((rank == 0 || rank == 1) && operation == "allreduce" && round >= -1,
             "the error says who noticed, in what and when");
      expect(std::string_view{what}.find("rank 2") != std::string_view::npos, "the sentence names the rank that died");
      seen.peer[comm.rank()] = peer;
      seen.reported[comm.rank()] = true;
      if (comm.rank() == 0) std::printf("%s\n", what);
    };
    std::vector<float> x(100'000, 1);
    for (int i = 0; i < 3; ++i) {
      if (comm.rank() == 2 && i == 2) std::raise(SIGKILL);
      // clang-format off
try { kolo::allreduce(comm, x, kolo::sum); }
catch (const kolo::error& e) {                                  // derives from std::runtime_error
  if (e.code() == kolo::errc::peer_died) report(e.peer(), e.operation(), e.round(), e.rank(), e.what());
}
      // clang-format on
    }
  });

  for (int r : {0, 1}) {
    if (seen.reported[r] && seen.peer[r] == 2) continue;
    std::printf("Rank %d got no error about the death of rank 2.\n", r);
    return 1;
  }
  std::printf("Both other ranks got an error that names rank 2; launch returned %d.\n", status);
  return status != 0 ? 0 : 1;
}
