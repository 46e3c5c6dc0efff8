// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What happens to the others when one rank dies: every one gets an error that says who, in what, and where.
//
// Rank 2 kills itself before the third sum. Ranks 0 and 1 catch the error and end in an orderly manner; launch says on
// standard error what became of rank 2, and returns something else than 0, as it should.
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

struct notes {  // in memory that outlives the processes, so that they can be compared
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
    std::printf("Rank %d was not told that rank 2 died.\n", r);
    return 1;
  }
  std::printf("Both other ranks were told that rank 2 died; launch returned %d.\n", status);
  return status != 0 ? 0 : 1;
}
