// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same training on the ranks that mpiexec started, on one machine or on many: the same function, over another communicator.
#include "algorithms.hpp"
#include "load.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "training.hpp"

#include <kolo/transport/mpi.hpp>

#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {
namespace {

int train_over_mpi(const settings& s) {
  kolo::mpi::communicator comm{MPI_COMM_WORLD};
  if (s.batch % comm.size() != 0)
    throw std::runtime_error(std::to_string(comm.size()) + " ranks cannot share " + std::to_string(s.batch) + " images equally: choose another --batch");
  const split data = load(s);
  const std::size_t steps = data.train.size() / std::size_t(s.batch) * std::size_t(s.epochs);
  run r{comm.size(), steps * std::size_t(s.batch), {}, std::vector<double>(steps)};
  kolo::on_root(comm, [&] {
    describe(data, s);
    std::printf("\n%d ranks on %d node%s\n", comm.size(), comm.node_count(), comm.node_count() == 1 ? "" : "s");
  });
  with_algorithm(s.algorithm, [&](auto algorithm) {
    train(comm, algorithm, s, data, r.result, r.curve);
    r.result.apart = rate_apart(comm, algorithm, s, data);
  });
  int status = 0;
  kolo::on_root(comm, [&] {
    print_summary({r}, "Ranks");
    status = check_accuracy({r}, s) ? 0 : 1;
  });
  kolo::broadcast(comm, std::span{&status, 1}, 0);
  return status;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  const auto settings = digits::parse(argc, argv);  // what is wrong with it ends the program before MPI begins
  const kolo::mpi::environment env{argc, argv};
  try {
    return digits::train_over_mpi(settings);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "digits: %s\n", e.what());
    return 1;
  }
}
