// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device views over MPI, each rank a process with a fake CUDA runtime: staged, as with an MPI that is not CUDA-aware.
#include <kolo/composite.hpp>
#include <kolo/cuda/mpi.hpp>

#include "fake_cuda/runtime.hpp"
#include "mpi/world.hpp"
#include "support/ends.hpp"

namespace {

using testing::complaints;

std::vector<float> copied(kolo::device_span<const float> x, cudaStream_t s) {
  std::vector<float> all(x.size());
  kolo::cuda::copy(all.data(), x.data(), x.size() * sizeof(float), s);
  kolo::cuda::wait(s);
  return all;
}

void averages(complaints& wrong, std::size_t n) {
  kolo::cuda::mpi_communicator comm{kolo::cuda::route::staged, MPI_COMM_WORLD,
                                    kolo::mpi::options{.timeout = std::chrono::seconds{60}, .piece_bytes = 65536}};
  kolo::cuda::set_device(comm.local_rank());
  const kolo::cuda::stream s;
  const auto memory = kolo::cuda::allocate(n * sizeof(float));
  const kolo::device_span<float> g{reinterpret_cast<float*>(memory.get()), n};
  const std::vector<float> mine(n, static_cast<float>(comm.rank()));
  kolo::cuda::copy(g.data(), mine.data(), n * sizeof(float), s);
  kolo::allreduce(comm, g, kolo::average, {.stream = s});
  kolo::allreduce(comm, g, kolo::max, kolo::ring{}, {.stream = s});
  kolo::broadcast(comm, g, comm.size() - 1, {.stream = s});
  const kolo::bucket turned{g.subspan(n / 2, n - n / 2),
                            g.subspan(0, n / 2)};  // two device runs, which MPI must not get
  kolo::broadcast(comm, turned, 0, kolo::binomial{}, {.stream = s});
  kolo::barrier(comm, {.stream = s});
  testing::expect_same(wrong, "average", comm.rank(), copied(g, s),
                       std::vector<float>(n, static_cast<float>(comm.size() - 1) / 2));
  auto half = comm.split(comm.rank() % 2, 0);
  kolo::allreduce(half, g, kolo::min, {.stream = s});
  testing::expect_same(wrong, "split", comm.rank(), copied(g, s),
                       std::vector<float>(n, static_cast<float>(comm.size() - 1) / 2));
}

/// A composite of two duplicates of the world: device views staged over one, host views over the other.
void both_memories(complaints& wrong) {
  using device = kolo::cuda::on_device<kolo::mpi::transport>;
  const kolo::mpi::options said{.timeout = std::chrono::seconds{60}};
  kolo::composite<device, kolo::mpi::transport> comm{device{kolo::cuda::route::staged, MPI_COMM_WORLD, said},
                                                     kolo::mpi::transport{MPI_COMM_WORLD, said}};
  kolo::cuda::set_device(comm.local_rank());
  const kolo::cuda::stream s;
  const auto memory = kolo::cuda::allocate(1000 * sizeof(float));
  const kolo::device_span<float> g{reinterpret_cast<float*>(memory.get()), 1000};
  std::vector<float> x(1000, static_cast<float>(comm.rank())), y = x;
  kolo::cuda::copy(g.data(), x.data(), 1000 * sizeof(float), s);
  auto on_host = kolo::start_allreduce(comm, y, kolo::sum);
  if (comm.rank() % 2 == 0) on_host.wait();
  kolo::allreduce(comm, g, kolo::sum, {.stream = s});
  on_host.wait();
  kolo::allreduce(comm, x, kolo::sum, kolo::native{});
  testing::expect_same(wrong, "on the device", comm.rank(), copied(g, s), x);
  testing::expect_same(wrong, "on the host", comm.rank(), y, x);
}

void is_asked(complaints& wrong) {
  for (const char* said : {"1", "0"}) {
    ::setenv("KOLO_CUDA_AWARE", said, 1);
    const kolo::cuda::mpi_communicator comm{MPI_COMM_WORLD};
    wrong.expect(comm.transport().is_straight() == (*said == '1'), "KOLO_CUDA_AWARE is ignored");
  }
  ::setenv("KOLO_CUDA_AWARE", "yes", 1);
  const auto refused = testing::words_of([] { const kolo::cuda::mpi_communicator comm{MPI_COMM_WORLD}; });
  wrong.expect(refused == "kolo: KOLO_CUDA_AWARE is \"yes\", and should be 1 or 0",
               "an invalid KOLO_CUDA_AWARE is not refused");
  ::setenv("KOLO_CUDA_AWARE", "", 1);
  const kolo::cuda::mpi_communicator empty{MPI_COMM_WORLD};
  ::unsetenv("KOLO_CUDA_AWARE");
  const kolo::cuda::mpi_communicator asked{MPI_COMM_WORLD},
      again{MPI_COMM_WORLD};  // the result depends on how MPI was built
  wrong.expect(asked.transport().is_straight() == empty.transport().is_straight(),
               "an empty KOLO_CUDA_AWARE is not ignored");
  wrong.expect(asked.transport().is_straight() == again.transport().is_straight(), "two queries of MPI differ");
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  testing::mpi_world world;
  cuda_double::the.devices = world.size();
  for (const std::size_t n : {0u, 1u, 1009u, 100'000u})
    world.run("device views", [&](complaints& wrong) { averages(wrong, n); });
  world.run("device and host views in one communicator", [&](complaints& wrong) { both_memories(wrong); });
  world.run("the route by KOLO_CUDA_AWARE, or by MPI's own answer", [&](complaints& wrong) { is_asked(wrong); });
  return world.status();
}
