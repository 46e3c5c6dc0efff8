// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One program of two files, both this one: compiled header-only, and in compiled mode. Each runs ranks of its own.
#include <kolo/kolo.hpp>

#include <cstdio>
#include <optional>
#include <type_traits>
#include <vector>

/// Defined by the file in compiled mode; only code of the same mode can link it.
void add(kolo::threads::communicator& comm, std::vector<int>& x);

// Containers ask such questions of their elements.
static_assert(!std::is_constructible_v<kolo::threads::communicator, int>);

#ifdef KOLO_COMPILED
void add(kolo::threads::communicator& comm, std::vector<int>& x) { kolo::allreduce(comm, x, kolo::sum); }

int run_compiled() {
  int sum = 0;
  kolo::threads::run(3, [&](auto& comm) {
    std::vector<int> x(1, comm.rank());
    const std::optional kept{comm.split(0, comm.rank())};
    auto same = *kept;
    add(same, x);
    if (comm.rank() == 0) sum = x[0];
  });
  return sum;
}
#else
int run_compiled();

int main() {
  int sum = 0;
  kolo::threads::run(4, [&](auto& comm) {
    std::vector<int> x(1, comm.rank());
#ifdef HANDED_ACROSS
    add(comm, x);
#else
    kolo::allreduce(comm, x, kolo::sum);
#endif
    if (comm.rank() == 0) sum = x[0];
  });
  const int other = run_compiled();
  std::printf("%d and %d\n", sum, other);
  return sum == 6 && other == 3 ? 0 : 1;
}
#endif
