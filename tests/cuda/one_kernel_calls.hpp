// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of every collective by many algorithms, as one kernel on each device: they give the bits of the same plans over threads on the host.
#pragma once

#include "cuda/ranks.hpp"
#include "cuda/threads_calls.hpp"

#include <kolo/cuda/one_kernel.hpp>

namespace testing {

/// Runs f(host, comm) on `ranks` threads, with the devices assigned in turn.
template <class F>
void run_with_one_kernel(int ranks, F f, std::size_t piece_bytes = usual_slot,
                         const kolo::threads::options& o = impatient(usual_slot)) {
  kolo::threads::run(
      ranks,
      [&](auto& host) {
        kolo::cuda::set_device(host.rank() % kolo::cuda::devices());
        kolo::cuda::one_kernel_communicator comm{host, kolo::cuda::direct_options{.piece_bytes = piece_bytes}};
        f(host, comm);
      },
      o);
}

/// `make(communicator, in, out, options)` returns the plan. Three runs, each on new values, whose copies are still pending when the plan starts.
template <class H, class C, class Make>
void same_plan(H& host, C& comm, complaints& wrong, const std::string& name, std::size_t n_in, std::size_t n_out,
               Make make) {
  const int r = comm.rank();
  const kolo::cuda::stream s;
  std::vector<float> in(n_in), out(n_out);
  tensor<float> a{in, s}, b{out, s};
  auto there = make(comm, a.view(), b.view(), typename C::options{.stream = s});
  auto here = make(host, std::span<float>{in}, std::span<float>{out}, typename H::options{});
  for (int run = 0; run < 3; ++run) {
    for (std::size_t i = 0; i < n_in; ++i) in[i] = number<float>(i * 7 + static_cast<std::size_t>(r * 31 + run));
    for (std::size_t i = 0; i < n_out; ++i) out[i] = static_cast<float>(run);
    const auto first_in = in, first_out = out;
    kolo::cuda::copy(a.data(), first_in.data(), n_in * sizeof(float), s);
    kolo::cuda::copy(b.data(), first_out.data(), n_out * sizeof(float), s);
    here.run();
    there.run();
    const auto called = name + ", run " + std::to_string(run);
    expect_same(wrong, called + ", in", r, a.values(), in);
    expect_same(wrong, called, r, b.values(), out);
  }
  wrong.expect(comm.size() == 1 || there.how().starts_with("one kernel"), name + ": " + there.how());
}

template <class H, class C, class... Algorithms>
void planned_allreduce(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "allreduce", n, n, [&](auto& c, auto in, auto out, const auto& o) {
      return kolo::plan_allreduce(c, in, out, kolo::sum, algorithm, o);
    });
    same_plan(host, comm, wrong, "allreduce in place", n, 0, [&](auto& c, auto in, auto, const auto& o) {
      return kolo::plan_allreduce(c, in, kolo::average, algorithm, o);
    });
  };
  (one(algorithms), ...);
}
template <class H, class C, class... Algorithms>
void planned_broadcast(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const int root = comm.size() / 2;
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "broadcast", n, 0,
              [&](auto& c, auto in, auto, const auto& o) { return kolo::plan_broadcast(c, in, root, algorithm, o); });
  };
  (one(algorithms), ...);
}
template <class H, class C, class... Algorithms>
void planned_reduce(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const int root = comm.size() - 1;
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "reduce", n, n, [&](auto& c, auto in, auto out, const auto& o) {
      return kolo::plan_reduce(c, in, out, kolo::max, root, algorithm, o);
    });
  };
  (one(algorithms), ...);
}
template <class H, class C, class... Algorithms>
void planned_reduce_scatter(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const auto mine = kolo::block(n, comm.size(), comm.rank()).count;
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "reduce_scatter", n, mine, [&](auto& c, auto in, auto out, const auto& o) {
      return kolo::plan_reduce_scatter(c, in, out, kolo::sum, algorithm, o);
    });
  };
  (one(algorithms), ...);
}
template <class H, class C, class... Algorithms>
void planned_allgather(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const auto all = n * static_cast<std::size_t>(comm.size());
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "allgather", n, all, [&](auto& c, auto in, auto out, const auto& o) {
      return kolo::plan_allgather(c, in, out, algorithm, o);
    });
  };
  (one(algorithms), ...);
}
template <class H, class C, class... Algorithms>
void planned_alltoall(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const auto all = n * static_cast<std::size_t>(comm.size());
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "alltoall", all, all,
              [&](auto& c, auto in, auto out, const auto& o) { return kolo::plan_alltoall(c, in, out, algorithm, o); });
  };
  (one(algorithms), ...);
}
template <class H, class C, class... Algorithms>
void planned_scan(H& host, C& comm, complaints& wrong, std::size_t n, const Algorithms&... algorithms) {
  const auto one = [&](const auto& algorithm) {
    same_plan(host, comm, wrong, "scan", n, n, [&](auto& c, auto in, auto out, const auto& o) {
      return kolo::plan_scan(c, in, out, kolo::sum, algorithm, o);
    });
    same_plan(host, comm, wrong, "exclusive_scan", n, n, [&](auto& c, auto in, auto out, const auto& o) {
      return kolo::plan_exclusive_scan(c, in, out, kolo::sum, algorithm, o);
    });
  };
  (one(algorithms), ...);
}
template <class H, class C>
void planned_gather_and_scatter(H& host, C& comm, complaints& wrong, std::size_t n) {
  const auto all = n * static_cast<std::size_t>(comm.size());
  same_plan(host, comm, wrong, "gather", n, all, [&](auto& c, auto in, auto out, const auto& o) {
    return kolo::plan_gather(c, in, out, 0, kolo::binomial{}, o);
  });
  same_plan(host, comm, wrong, "scatter", all, n, [&](auto& c, auto in, auto out, const auto& o) {
    return kolo::plan_scatter(c, in, out, 0, kolo::one_shot{}, o);
  });
}

/// For every collective a few algorithms whose rounds differ in kind.
template <class H, class C>
void every_planned_reduction(H& host, C& comm, complaints& wrong, std::size_t n) {
  planned_allreduce(host, comm, wrong, n, kolo::ring{}, kolo::recursive_doubling{}, kolo::circulant{}, kolo::one_shot{},
                    kolo::two_shot{}, kolo::rabenseifner{}, kolo::double_tree{.segments = 3},
                    kolo::two_level<>{.nodes = {.ranks_per_node = 2}});
  planned_reduce(host, comm, wrong, n, kolo::binomial{}, kolo::circulant_pipelined{.segments = 3});
  planned_reduce_scatter(host, comm, wrong, n, kolo::ring{}, kolo::recursive_halving{}, kolo::pairwise{});
  planned_scan(host, comm, wrong, n, kolo::recursive_doubling{}, kolo::chain{.segments = 3});
}
template <class H, class C>
void every_planned_movement(H& host, C& comm, complaints& wrong, std::size_t n) {
  planned_broadcast(host, comm, wrong, n, kolo::binomial{}, kolo::chain{.segments = 3}, kolo::van_de_geijn_ring{});
  planned_allgather(host, comm, wrong, n, kolo::ring{}, kolo::bruck{}, kolo::one_shot{});
  planned_alltoall(host, comm, wrong, n, kolo::pairwise{}, kolo::bruck{}, kolo::one_shot{});
  planned_gather_and_scatter(host, comm, wrong, n);
}

/// Plans of strided views, a narrow wire and a non-commutative operator give the bits of calls.
template <class C>
void plans_views_of_every_kind(C& comm, complaints& wrong) {
  const int r = comm.rank();
  const kolo::cuda::stream s;
  tensor<float> a{numbers<float>(r, 600), s}, b{numbers<float>(r, 600), s}, c{of_rank(r, 70), s}, d{of_rank(r, 70), s};
  const auto columns = [](tensor<float>& t) { return kolo::device_strided<float, 2>{t.data(), {150, 1}, {4, 1}}; };
  auto of_columns = kolo::plan_allreduce(comm, columns(a), kolo::wire<kolo::bfloat16>(kolo::average),
                                         kolo::rabenseifner{}, {.stream = s});
  kolo::bucket all{a.view().subspan(1, 301), c.view()}, all_too{b.view().subspan(1, 301), d.view()};
  auto of_bucket = kolo::plan_allreduce(comm, all, scaled_or_first{1.5F}, kolo::two_shot{}, {.stream = s});
  for (int run = 0; run < 2; ++run) {
    of_columns.run();
    of_bucket.run();
    kolo::allreduce(comm, columns(b), kolo::wire<kolo::bfloat16>(kolo::average), kolo::rabenseifner{}, {.stream = s});
    kolo::allreduce(comm, all_too, scaled_or_first{1.5F}, kolo::two_shot{}, {.stream = s});
    expect_same(wrong, "columns and bucket", r, a.values(), b.values());
    expect_same(wrong, "bucket", r, c.values(), d.values());
  }
}

}  // namespace testing
