// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data-parallel training with CUDA kernels, one process per GPU: device tensors over NCCL, host tensors over shared memory, in one communicator.
#include <kolo/compose/composite.hpp>
#include <kolo/kolo.hpp>

#include "network.hpp"
#include "places.cuh"

#include <cstdio>
#include <cstdlib>

namespace gpu {

struct settings {
  int ranks = 2, steps = 300;
  std::size_t samples = 2048;
  float rate = 1.0f;
};

/// Collective: prints the fraction of points that are classified correctly, over all ranks, and whether all ranks have the same weights.
template <class C, class Place>
bool report(C& comm, const Place& place, typename Place::memory& errors, typename Place::memory& weights, int step) {
  double right = 0, all = 0;
  for (const float e : place.values(comm, errors)) right += std::abs(e) < 0.5f, ++all;
  double sums[]{right, all};
  kolo::allreduce(comm, sums, kolo::sum);
  const auto mine = place.values(comm, weights);
  auto least = mine, most = mine;
  kolo::allreduce(comm, least, kolo::min);
  kolo::allreduce(comm, most, kolo::max);
  if (comm.rank() == 0)
    std::printf("step %4d: %.1f %% of the points classified correctly%s\n", step, 100 * sums[0] / sums[1],
                least == most ? "" : ", and WEIGHTS DIFFER");
  return least == most && sums[0] > 0.95 * sums[1];
}

template <class C, class Place>
int train(C& comm, const Place& place, const settings& s) {
  const dataset data{s.samples, comm.rank(), comm.size()};
  auto points = place.make(data.points), labels = place.make(data.labels), errors = place.make(data.labels);
  auto weights = place.make(first_weights()), gradient = place.make(first_weights());
  auto activations = place.make(std::vector<float>(data.size() * hidden));
  const tensors t{place.at(points),      place.at(labels), place.at(weights), place.at(gradient),
                  place.at(activations), place.at(errors), data.size()};

  if (comm.rank() == 0) std::printf("%d ranks train on %s\n", comm.size(), Place::name);
  kolo::broadcast(comm, place.view(weights), 0, place.options(comm));
  auto exchange = kolo::plan_allreduce(comm, place.view(gradient), kolo::average, place.options(comm));
  bool has_learned = false;
  for (int step = 1; step <= s.steps; ++step) {
    place.run(hidden_layer{t});
    place.run(output_layer{t});
    place.run(gradients{t});
    exchange.run();  // on the stream, between the kernel that computes the gradient and the one that uses it
    place.run(descent{t, s.rate});
    if (step % 100 == 0 || step == s.steps) has_learned = report(comm, place, errors, weights, step);
  }
  return has_learned ? 0 : 1;
}

/// Trains on GPUs if all processes see enough of them, otherwise on the host.
int train_where_possible(kolo::shm::communicator& host, const settings& s) {
  int devices_here = kolo::cuda::devices();  // not in the parent: CUDA does not work in forked children after it
  kolo::allreduce(host, std::span{&devices_here, 1}, kolo::min);
  if (devices_here >= host.local_size()) {
    kolo::cuda::set_device(host.local_rank());
    kolo::composite<kolo::nccl::transport, kolo::shm::transport> both{host};
    return train(both, on_gpu{}, s);
  }
  if (host.rank() == 0)
    std::printf(
        "%d ranks on this host need as many GPUs, but a process sees only %d: training with tensors of the host.\n",
        host.local_size(), devices_here);
  return train(host, on_host{}, s);
}

}  // namespace gpu

int main(int argc, char** argv) {
  gpu::settings s;
  if (argc > 1) s.ranks = std::atoi(argv[1]);
  if (argc > 2) s.steps = std::atoi(argv[2]);
  if (argc > 3 || s.ranks < 1 || s.ranks > 64 || s.steps < 1) {
    std::printf(
        "Usage: %s [RANKS [STEPS]]     RANKS: processes, one per GPU (default: 2); with fewer GPUs trains on the "
        "host\n",
        argv[0]);
    return 2;
  }
  return kolo::shm::launch(s.ranks, [&](kolo::shm::communicator& host) { return gpu::train_where_possible(host, s); });
}
