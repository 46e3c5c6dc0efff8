// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device views over the fake NCCL and host views over threads, in one communicator: waits in any order do not deadlock, and both transports fail together.
#include "cuda/nccl_ranks.hpp"
#include "laws/message_laws.hpp"
#include "laws/shrink_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

#include <kolo/compose/composite.hpp>

using namespace testing;

namespace {

using both_wires = kolo::composite<kolo::nccl::transport, kolo::threads::transport>;
/// For tests of host communicators (tests/laws): all views are host views, so a rule by kind selects the transport.
using settled_both =
    kolo::composite<settled_nccl, kolo::threads::transport,
                    kolo::by_kind<kolo::kind::allreduce, kolo::kind::broadcast, kolo::kind::allgather>>;

/// Runs f(both, stream) on threads; rethrows what they throw.
template <class Both = both_wires, class F>
void run_both(int ranks, F f) {
  cuda_double::the.takes_all_memory = std::is_same_v<Both, settled_both>;
  const auto end = [] { nccl_double::reset(); };
  try {
    kolo::threads::run(
        ranks,
        [&](auto& host) {
          Both both{host, kolo::nccl::options{.timeout = 60s, .piece_bytes = 4096}};
          const kolo::cuda::stream s;
          f(both, s);
        },
        impatient(usual_slot));
  } catch (...) {
    end();
    throw;
  }
  end();
}
template <class Both = both_wires, class F>
void is_right(std::initializer_list<int> sizes, F f) {
  for (const int p : sizes) {
    complaints wrong;
    try {
      run_both<Both>(p, [&](auto& both, cudaStream_t s) { f(both, wrong, s); });
    } catch (const std::exception& e) {
      wrong.say(e.what());
    }
    CHECK(wrong.text() == "");
  }
}
template <class F>
std::vector<std::string> each_says(int p, F f) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  run_both<settled_both>(p, [&](auto& both, cudaStream_t) { said[static_cast<std::size_t>(both.rank())] = f(both); });
  return said;
}

}  // namespace

TEST_CASE("composite: the transport laws over NCCL and threads") {
  for (const int p : {1, 2, 3, 8}) {
    CHECK(each_says(p, [](auto& both) { return laws::is_constant(both.first().transport()); }) == all_say(p, ""));
    CHECK(each_says(p, [](auto& both) { return laws::messages_arrive_in_order(both.first().transport()); }) ==
          all_say(p, ""));
    CHECK(each_says(p, [](auto& both) { return laws::split_orders_by_key_and_rank(both.first().transport()); }) ==
          all_say(p, ""));
    CHECK(each_says(p, [](auto& both) {
            return both.rank() % 2 == 0 ? laws::failure_wakes_everybody(both.second().transport())
                                        : laws::failure_wakes_everybody(both.first().transport());
          }) == all_say(p, ""));
    const auto said = each_says(p, [](auto& both) {
      return both.rank() % 2 == 0 ? laws::keeps_the_first_failure(both.first().transport())
                                  : laws::keeps_the_first_failure(both.second().transport());
    });
    CHECK(said[0].starts_with("first "));
    CHECK(said == all_say(p, said[0]));
  }
}

TEST_CASE("composite: device views go over NCCL, the host's over threads") {
  is_right({1, 2, 3, 8}, [](auto& both, complaints& wrong, cudaStream_t s) {
    const int p = both.size(), r = both.rank();
    views_of_every_kind(both, wrong, s);
    const auto number = both.first().engine()->sequence;
    wrong.expect(number == 6 && both.second().engine()->sequence == 0, "device views did not go over NCCL");
    auto host = of_rank(r, 300);
    kolo::allreduce(both, host, kolo::sum);
    expect_same(wrong, "on the host", r, host, summed(p, 300));
    wrong.expect(both.second().engine()->sequence == number + 1, "host views did not go over threads");
    tensor<float> x{of_rank(r, 300), s};
    kolo::allreduce(both, x.view(), kolo::sum, kolo::native{}, {.stream = s});
    kolo::barrier(both);
    both.first().transport().wait({.stream = s});
    expect_same(wrong, "NCCL's own", r, x.values(), summed(p, 300));
    auto part = both.split(r % 2, 0);
    kolo::broadcast(part, x.view(), 0, {.stream = s});
    kolo::broadcast(part, host, 0);
    expect_same(wrong, "split", r, x.values(), host);
  });
}

TEST_CASE("composite: waits in any order on NCCL and the host do not deadlock") {
  is_right({2, 3, 5}, [](auto& both, complaints& wrong, cudaStream_t s) {
    const int p = both.size(), r = both.rank();
    std::vector<int> x(5000, 1);  // more pieces than slots
    tensor<float> y{of_rank(r, 100), s};
    for (int k = 0; k < 6; ++k) {
      auto host = kolo::start_allreduce(both, x, kolo::max);
      if (r == k % p)
        host.wait();  // the other ranks advance it within NCCL's call, which blocks until all ranks have called it
      auto device = kolo::start_allreduce(both, y.view(), kolo::max, kolo::native{}, {.stream = s});
      if (r == (k + 1) % p) device.wait();
      kolo::barrier(both);
      device.wait();
      host.wait();
    }
    expect_same(wrong, "the device's", r, y.values(), of_rank(p - 1, 100));
  });
}

TEST_CASE("composite: a failure of NCCL ends the host's call, and the reverse") {
  for (const bool by_nccl : {true, false}) {
    constexpr int p = 3;
    std::vector<std::string> said(p), later(p);
    run_both(p, [&](auto& both, cudaStream_t s) {
      const auto r = static_cast<std::size_t>(both.rank());
      tensor<float> x{of_rank(both.rank(), 100), s};
      std::vector<int> y(10);
      said[r] = cause_of([&] {
        kolo::allreduce(both, x.view(), kolo::sum, {.stream = s});
        both.first().transport().wait({.stream = s});
        kolo::barrier(both);
        if (r == 1 && by_nccl) {
          const cuda_double::guard held{cuda_double::the.lock};
          both.first().transport().native_handle()->fault = ncclRemoteError;
        }
        if (r == 1 && by_nccl) both.first().transport().wait({.stream = s});
        if (r == 1) both.second().transport().fail(laws::failure_of(1));
        kolo::allreduce(both, y, kolo::sum);
      });
      later[r] = cause_of([&] { kolo::allreduce(both, x.view(), kolo::sum, {.stream = s}); });
      if (both.first().transport().native_handle()) later[r] = "NCCL was not aborted";
    });
    INFO(said[0]);
    CHECK(said == all_say(p, said[0]));
    CHECK(said[0].starts_with(by_nccl ? "rank 1: NCCL: remote process exited" : "rank 1: law"));
    CHECK(later == said);
  }
}

TEST_CASE("composite: shrink makes a new NCCL communicator of the remaining ranks") {
  for (const int p : {2, 4}) {
    CHECK(each_says(p, laws::shrinking_without_loss_keeps_all) == all_say(p, ""));
    CHECK(each_says(p, laws::shrinking_leaves_out_who_left) == all_say(p, ""));
    CHECK(each_says(p, laws::shrinking_happens_once) == all_say(p, ""));
    CHECK(each_says(p, [](auto& both) -> std::string {
            auto rest = both.shrink();
            const auto& unreported = both.second().engine()->unreported;
            return rest.first().engine()->unreported == unreported && rest.second().engine()->unreported == unreported
                       ? ""
                       : "an unreported failure is not passed on";
          }) == all_say(p, ""));
  }
}
