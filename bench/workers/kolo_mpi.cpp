// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups `kolo_mpich` and `kolo_openmpi`: kolo over MPI, MPI's own collectives, and kolo's shared memory, in the same processes.
#include <kolo/fit.hpp>
#include <kolo/mpi/mpi.hpp>

#include "kolo_backend.hpp"
#include "mpi_backend.hpp"

#include <cstdio>

namespace {

using namespace kolo_bench;

/// | algorithm       | is |
/// |-----------------|----|
/// | `MPI`           | MPI's blocking collective, with which the rows below are compared |
/// | `own`           | kolo's choice among its own algorithms: by a table without times of MPI's |
/// | `automatic`     | kolo's choice, which may be MPI's if no bit depends on it |
/// | `any order`     | the same with any order allowed: may be MPI's for all calls |
/// | `native`        | `kolo::native{}`: MPI's non-blocking collective, tested until it has ended |
/// | `shared memory` | kolo over shared memory |
/// | any other       | that algorithm of kolo, over MPI |
class over_mpi : public backend {
 public:
  over_mpi() {
    auto table = kolo::detail::select::fixed_table(*own_comm_.engine());
    table.native = {};
    kolo::use_tuning(own_comm_, table);
  }

  int rank() const override { return mpi_.rank(); }
  int size() const override { return mpi_.size(); }
  std::string version() const override { return all_.version() + " over " + mpi_.version(); }
  std::string offers() const override {
    std::string blocking = mpi_.offers();
    for (std::size_t at = 0; (at = blocking.find("/default", at)) != std::string::npos;)
      blocking.replace(at, 8, "/MPI");
    return blocking + all_.offers() + own_.offers() + any_.offers() + native_.offers() + shared_.offers();
  }
  call prepare(const command& c, std::size_t n) override {
    if (c.algorithm == "MPI") return mpi_.prepare(c, n);
    if (c.algorithm == "own") return own_.prepare(c, n);
    if (c.algorithm == "any order") return any_.prepare(c, n);
    if (c.algorithm == "native") return native_.prepare(c, n);
    return c.algorithm == "shared memory" ? shared_.prepare(c, n) : all_.prepare(c, n);
  }

 private:
  using over = kolo::mpi::communicator;
  static constexpr auto any_order = kolo::ordered<kolo::order::any>(kolo::automatic{});

  mpi_backend mpi_{};
  over comm_{MPI_COMM_WORLD}, own_comm_{MPI_COMM_WORLD};
  kolo::shm::communicator shared_comm_ = kolo::shm::world();
  kolo_backend<over> all_{comm_};
  kolo_backend<over, entry<kolo::automatic>> own_{own_comm_, {"own", {}}};
  kolo_backend<over, entry<kolo::detail::schedule::automatic_in_any_order>> any_{comm_, {"any order", any_order}};
  kolo_backend<over, entry<kolo::native>> native_{comm_, {"native", {}}};
  kolo_backend<kolo::shm::communicator, entry<kolo::automatic>> shared_{shared_comm_, {"shared memory", {}}};
};

}  // namespace

int main(int argc, char** argv) {
  const kolo::mpi::environment env{argc, argv};
  try {
    over_mpi backend;
    worker{backend}.serve();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
