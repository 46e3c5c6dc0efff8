// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An MPI program that does not use kolo: heat in a rod, by conjugate gradients; every rank has a part of the rod.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

using vector = std::vector<double>;

/// This rank's part of a rod of n points.
struct part {
  int rank = 0, size = 1, n = 0, first = 0, count = 0;
  std::vector<int> counts{}, firsts{};

  explicit part(int points) : n{points} {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int r = 0, at = 0; r < size; at += counts.back(), ++r) {
      counts.push_back(n / size + (r < n % size ? 1 : 0));
      firsts.push_back(at);
    }
    first = firsts[std::size_t(rank)];
    count = counts[std::size_t(rank)];
  }

  double dot(const vector& a, const vector& b) const {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
  }
  vector whole(const vector& mine) const {
    vector all(std::size_t(n), 0);
    MPI_Allgatherv(mine.data(), count, MPI_DOUBLE, all.data(), counts.data(), firsts.data(), MPI_DOUBLE,
                   MPI_COMM_WORLD);
    return all;
  }
  /// 2 x[i] - x[i - 1] - x[i + 1], with 0 beyond the ends.
  vector times_matrix(const vector& mine) const {
    const vector x = whole(mine);
    vector y(mine.size());
    for (int i = 0; i < count; ++i) {
      const int k = first + i;
      y[std::size_t(i)] =
          2 * x[std::size_t(k)] - (k > 0 ? x[std::size_t(k - 1)] : 0) - (k + 1 < n ? x[std::size_t(k + 1)] : 0);
    }
    return y;
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const part p{2000};
  vector x(std::size_t(p.count), 0), rest(std::size_t(p.count), 1), direction = rest;
  double square = p.dot(rest, rest);
  int steps = 0;
  for (; square > 1e-12 && steps < 4000; ++steps) {
    const vector y = p.times_matrix(direction);
    const double along = square / p.dot(direction, y), before = square;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += along * direction[i], rest[i] -= along * y[i];
    square = p.dot(rest, rest);
    for (std::size_t i = 0; i < x.size(); ++i) direction[i] = rest[i] + square / before * direction[i];
  }
  double warmest = 0;
  for (const double t : x) warmest = std::fmax(warmest, t);
  MPI_Allreduce(MPI_IN_PLACE, &warmest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const double wanted = 1000.0 * 1001.0 / 2;  // the exact solution in the middle of a uniformly heated rod
  if (p.rank == 0)
    std::printf("%d ranks, %d steps: temperature in the middle %.6f, exact %.6f\n", p.size, steps, warmest, wanted);
  MPI_Finalize();
  return std::fabs(warmest - wanted) < 1e-6 * wanted ? 0 : 1;
}
