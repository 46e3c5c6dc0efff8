// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the order of what is enqueued, grouped, awaited and aborted over NCCL, on the fake NCCL.
// built with others: devices
#include "cuda/nccl_ranks.hpp"
#include "support/ends.hpp"

#include <sys/time.h>

using namespace testing;

namespace {

/// Ends the program after this much time of processors; 0: not.
void cpu_seconds(long seconds) {
  const ::itimerval limit{{0, 0}, {seconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

void alone(complaints& wrong) {
  kolo::threads::run(1, [&](auto& host) {
    const kolo::cuda::stream s;
    {
      kolo::nccl::communicator comm{host};
      tensor<int> x{std::vector<int>(10, 7), s};
      kolo::cuda::fill(x.data(), 0, 40, s);
      comm.transport().wait({.stream = s});
      const cuda_double::eyes open;
      wrong.expect(x.data()[9] == 0, "wait did not wait for the stream");
    }
    cuda_double::device_of_thread = 1;
    const kolo::cuda::stream foreign;
    cuda_double::device_of_thread = 0;
    kolo::nccl::communicator comm{host};
    const auto said = words_of([&] { comm.transport().wait({.stream = foreign}); });
    wrong.expect(said.find("device 0, and the stream is of device 1") != std::string::npos,
                 "a stream of another device: " + said);
    kolo::nccl::communicator over{comm.transport().native_handle()};
    kolo::failure f;
    f.peer = 1;
    over.transport().fail(f);
    f.peer = 2;
    wrong.expect(over.transport().fail(f).peer == 1, "fail did not keep the first failure");
    nccl_double::aborted = 0;
    comm.transport().fail(f);
    wrong.expect(nccl_double::aborted == 1, "NCCL was not aborted");
    nccl_double::stays_away = true;
    cpu_seconds(1);  // a wait with a deadline needs 50 ms at most, on a slow machine too; one without ends the program
    const auto late = words_of([&] { kolo::nccl::communicator never{host, kolo::nccl::options{.timeout = 50ms}}; });
    cpu_seconds(0);
    wrong.expect(late.find("ncclCommInitRankConfig has not come to its end") != std::string::npos,
                 "the constructor: " + late);
  });
  nccl_double::reset();
}

void graphs(complaints& wrong, bool is_refused) {
  std::string how[2], later;
  try {
    run_nccl_threads<kolo::nccl::transport>(2, [&](auto& comm) {
      const kolo::cuda::stream s;
      tensor<float> x{of_rank(comm.rank(), 100), s};
      auto plan = kolo::plan_allreduce(comm, x.view(), kolo::sum, {.stream = s});
      cuda_double::cannot_capture = is_refused && comm.rank() == 1;
      auto expected = summed(2, 100);
      for (int k = 0; k < 3; ++k) {
        plan.run();
        expect_same(wrong, "sum", comm.rank(), x.values(), expected);
        for (auto& v : expected) v *= 2;
      }
      how[comm.rank()] = plan.how();
      if (is_refused) return;
      kolo::failure f;
      f.text = "on purpose";
      comm.transport().fail(f);
      plan.run();
    });
  } catch (const std::exception& e) {
    later = e.what();
  }
  wrong.expect(later == "" || later.find("on purpose") != std::string::npos, later);
  wrong.expect((how[0] == "a CUDA graph") != is_refused && (how[1] == "a CUDA graph") != is_refused,
               "graphs: " + how[0] + ", " + how[1]);
}

}  // namespace

int main() {
  cuda_double::the.takes_all_memory = false;
  complaints wrong;
  alone(wrong);
  graphs(wrong, false);
  graphs(wrong, true);
  std::fputs(wrong.text().c_str(), stderr);
  return wrong.text().empty() ? 0 : 1;
}
