// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in device views over two transports: two nodes of two ranks, the fake NCCL on each and staged messages between them; failures of either
// transport.
// built with others: devices
#include "cuda/nccl_ranks.hpp"
#include "cuda/on_double.hpp"

#include <kolo/cuda/routed.hpp>

using namespace testing;

namespace {

using staged = kolo::cuda::on_device<message_transport>;
using communicator = kolo::communicator<kolo::cuda::routed<kolo::nccl::transport, staged>>;

template <class F>
void run(complaints& wrong, F f) {
  const kolo::threads::options o{.timeout = std::chrono::seconds{5}};
  kolo::detail::shm::private_mapping memory;
  const kolo::detail::shm::region_shape shape{4, o};
  const auto region = kolo::threads::transport::initialise(memory, shape);
  try {
    kolo::threads::run(
        4,
        [&](auto& all) {
          auto here = all.split(all.rank() / 2, 0);
          communicator comm{kolo::nccl::transport{here, {.timeout = 5s}},
                            staged{kolo::cuda::route::staged, memory, region, shape, all.rank()}, all.rank() / 2};
          const kolo::cuda::stream s;
          kolo::barrier(all);  // no rank fails before all have made their communicator
          f(comm, s);
          kolo::barrier(all);  // no rank leaves before
        },
        o);
  } catch (const std::exception& e) {
    wrong.say(e.what());
  }
  nccl_double::reset();
}

int rank_in_error(communicator& comm) {
  try {
    kolo::backoff p;
    comm.transport().check(p, {.timeout = 5s});
    return -1;
  } catch (const kolo::error& e) {
    return e.rank();
  }
}

}  // namespace

int main() {
  complaints wrong;
  run(wrong, [&](communicator& comm, cudaStream_t s) {
    tensor<float> x{of_rank(comm.rank(), 1000), s};
    kolo::allreduce(comm, x.view(), kolo::sum, kolo::two_level<>{.nodes = {.ranks_per_node = 2}}, {.stream = s});
    kolo::allreduce(comm, x.view(), kolo::max, kolo::ring{}, {.stream = s});
    comm.transport().wait({.stream = s});
    expect_same(wrong, "two_level", comm.rank(), x.values(), summed(4, 1000));
  });
  run(wrong, [&](communicator& comm, cudaStream_t) {
    if (comm.rank() != 3) return;
    {
      const cuda_double::guard held{cuda_double::the.lock};
      comm.transport().near_transport().native_handle()->fault = ncclRemoteError;
    }
    wrong.expect(rank_in_error(comm) == 3, "an NCCL error is not found, or not as rank 3's");
  });
  run(wrong, [&](communicator& comm, cudaStream_t) {
    if (comm.rank() != 2) return;
    kolo::failure f;
    f.code = kolo::errc::system;
    f.rank = 2;
    comm.transport().fail(f);
    wrong.expect(!comm.transport().near_transport().native_handle(), "NCCL was not aborted after a failure");
  });
  std::fputs(wrong.text().c_str(), stderr);
  return wrong.text().empty() ? 0 : 1;
}
