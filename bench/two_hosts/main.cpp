// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times allreduce of floats on several nodes: flat over MPI, by MPI's own and by kolo's algorithms, and by two levels over shared memory and MPI.
#include <kolo/mpi/mpi.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

struct contestant {
  std::string name;
  bool is_flat;
  std::function<void(std::vector<float>&)> run;
  std::vector<double> seconds{};
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

/// The slowest rank's time.
double timed(const contestant& c, std::vector<float>& x) {
  MPI_Barrier(MPI_COMM_WORLD);
  double mine = MPI_Wtime(), slowest = 0;
  c.run(x);
  mine = MPI_Wtime() - mine;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

bool is_right(const contestant& c, std::size_t n, int rank, int size) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(rank + static_cast<int>(i % 7));
  c.run(x);
  int good = 1;
  for (std::size_t i = 0; i < n; ++i)
    if (x[i] != static_cast<float>(size * (size - 1) / 2 + size * static_cast<int>(i % 7))) good = 0;
  MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return good != 0;
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  const int per_node = argc > 1 ? std::atoi(argv[1]) : 0;  // 0: nodes are hosts
  const kolo::mpi::options said{
      .ranks_per_node = per_node,
      .piece_bytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : kolo::mpi::options{}.piece_bytes};
  kolo::mpi::communicator flat{MPI_COMM_WORLD, said};
  kolo::mpi::routed_communicator both{MPI_COMM_WORLD, said};
  const auto nodes = kolo::topology_of(both);
  const int rank = flat.rank(), size = flat.size();
  const auto by = [](auto& comm, auto algorithm) {
    return [&comm, algorithm](std::vector<float>& x) { kolo::allreduce(comm, x, kolo::sum, algorithm); };
  };
  std::vector<contestant> all;
  all.push_back({"MPI's own", true, by(flat, kolo::native{})});
  all.push_back({"ring", true, by(flat, kolo::ring{})});
  all.push_back({"circulant", true, by(flat, kolo::circulant{})});
  all.push_back({"rec_doubling", true, by(flat, kolo::recursive_doubling{})});
  all.push_back({"two_shot", true, by(flat, kolo::two_shot{})});
  all.push_back({"two_level<>", false, by(both, kolo::two_level<>{.nodes = nodes})});
  all.push_back(
      {"..., rd", false, by(both, kolo::two_level<kolo::circulant, kolo::recursive_doubling>{.nodes = nodes})});
  if (rank == 0) {
    std::printf("allreduce of floats, %d ranks on %d nodes; median of the slowest rank, ms\n%10s", size,
                flat.node_count(), "bytes");
    for (const auto& c : all) std::printf(" %13s", c.name.c_str());
    std::printf("   best flat / two_level\n");
  }
  bool good = true;
  for (std::size_t bytes = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 8 << 10; bytes <= (16 << 20);
       bytes *= bytes < (1 << 20) ? 8 : 4) {
    const std::size_t n = bytes / sizeof(float);
    const int rounds = bytes < (1 << 20) ? 21 : 5;
    std::vector<float> x(n, 0.0f);
    for (auto& c : all) {
      c.seconds.clear();
      good = is_right(c, n, rank, size) && good;
    }
    for (int k = 0; k < rounds; ++k)
      for (auto& c : all) c.seconds.push_back(timed(c, x));
    double best_flat = 1e9, best_two = 1e9;
    if (rank == 0) std::printf("%10zu", bytes);
    for (const auto& c : all) {
      const double t = median(c.seconds);
      if (c.is_flat) best_flat = std::min(best_flat, t);
      else best_two = std::min(best_two, t);
      if (rank == 0) std::printf(" %13.3f", t * 1e3);
    }
    if (rank == 0)
      std::printf("   %.2f   (MPI's own / two_level %.2f)\n", best_flat / best_two, median(all[0].seconds) / best_two);
  }
  if (rank == 0 && !good) std::printf("some result is wrong\n");
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  ::_exit(good ? 0 : 1);  // over TCP, MPI_Finalize of MPICH 4.0 sometimes hangs, also without kolo
}
