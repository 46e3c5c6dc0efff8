// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests under mpiexec: rank 0 prints what each rank found wrong, and all end with the same status.
#pragma once

#include <kolo/mpi/mpi.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "collectives/ranks.hpp"

namespace testing {

/// A program's tests, on all ranks of MPI_COMM_WORLD. The results are gathered by MPI itself, because a test may break its communicator.
class mpi_world {
 public:
  mpi_world() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Runs test(complaints), which is collective. Prints what each rank found wrong, and the time.
  template <class F>
  void run(const char* name, F test) {
    complaints wrong;
    const double begin = MPI_Wtime();
    try {
      test(wrong);
    } catch (const std::exception& e) {
      wrong.say(std::string{"threw: "} + e.what());
    }
    char mine[700] = {};
    std::strncpy(mine, wrong.text().c_str(), sizeof mine - 1);
    std::vector<char> all(sizeof mine * static_cast<std::size_t>(size_));
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, all.data(), sizeof mine, MPI_CHAR, MPI_COMM_WORLD);
    bool good = true;
    for (int r = 0; r < size_; ++r) {
      const char* said = all.data() + sizeof mine * static_cast<std::size_t>(r);
      if (*said == '\0') continue;
      good = false;
      if (rank_ == 0) std::printf("%s, rank %d of %d: %s\n", name, r, size_, said);
    }
    if (rank_ == 0) std::printf("%-6s %s (%.2f s)\n", good ? "passed" : "FAILED", name, MPI_Wtime() - begin);
    failed_ += good ? 0 : 1;
  }

  /// Runs a law of tests/laws on a transport of its own.
  template <class Law>
  void law(const char* name, Law law_of) {
    run(name, [&](complaints& wrong) {
      kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = std::chrono::seconds{60}}};
      if (const std::string broken = law_of(comm.transport()); !broken.empty()) wrong.say(broken);
    });
  }

  int status() const { return failed_ == 0 ? 0 : 1; }

 private:
  int rank_ = 0, size_ = 1, failed_ = 0;
};

}  // namespace testing
