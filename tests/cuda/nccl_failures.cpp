// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Failures over the fake NCCL: which ranks get them, which communicators are aborted, and that nothing hangs.
#include "cuda/nccl_ranks.hpp"
#include "laws/message_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

#include <barrier>
#include <optional>

using namespace testing;

TEST_CASE("nccl: a failed call ends its group, aborts the communicator on every rank, and stays the cause") {
  std::vector<std::string> first(3), later(3), last(3);
  cuda_double::the.takes_all_memory = false;
  CHECK_THROWS_AS(run_nccl_threads<kolo::nccl::transport>(3,
                                                          [&](auto& comm) {
                                                            const kolo::cuda::stream s;
                                                            const auto r = static_cast<std::size_t>(comm.rank());
                                                            tensor<float> x{of_rank(comm.rank(), 100), s};
                                                            if (r == 1) nccl_double::fails = "ncclRecv";
                                                            calls();
                                                            const auto call = [&] {
                                                              kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{},
                                                                              {.stream = s});
                                                              comm.transport().wait({.stream = s});
                                                            };
                                                            first[r] = words_of(call);
                                                            last[r] = calls();
                                                            later[r] = words_of(call);
                                                            call();
                                                          }),
                  kolo::error);
  CHECK(last[1] == "GroupStart Send Recv GroupEnd CommAbort ");
  for (const std::size_t r : {0u, 1u, 2u}) {
    CHECK(first[r].find("rank 1: ncclGroupEnd: invalid usage") != std::string::npos);
    CHECK(later[r].find("rank 1: ncclGroupEnd: invalid usage") != std::string::npos);
    CHECK(last[r].find("CommAbort ") == last[r].size() - 10);
  }
}

TEST_CASE("nccl: a rank that does not call is a timeout, and nothing hangs") {
  std::string said;
  CHECK_THROWS_AS(run_nccl_threads<kolo::nccl::transport>(
                      2,
                      [&](auto& comm) {
                        const kolo::cuda::stream s;
                        tensor<float> x{of_rank(0, 10), s};
                        if (comm.rank() == 1) return static_cast<void>(laws::end_of_waiting(comm.transport(), 0));
                        said = words_of([&] {
                          kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.timeout = 50ms, .stream = s});
                        });
                        comm.transport().wait({.stream = s});
                      }),
                  kolo::error);
  CHECK(said.find("kolo: allreduce #1, round 0, rank 0: ncclGroupEnd has not come to its end within 0.05") == 0);
}

TEST_CASE("nccl: an asynchronous error is thrown on all ranks; a stuck stream is a timeout") {
  std::vector<std::string> said(2);
  CHECK_THROWS_AS(
      run_nccl_threads<kolo::nccl::transport>(2,
                                              [&](auto& comm) {
                                                const kolo::cuda::stream s;
                                                if (comm.rank() == 0)
                                                  comm.transport().native_handle()->fault = ncclRemoteError;
                                                auto& words = said[static_cast<std::size_t>(comm.rank())];
                                                while (words.empty())
                                                  words = words_of([&] { comm.transport().wait({.stream = s}); });
                                                kolo::barrier(comm, {.stream = s});
                                              }),
      kolo::error);
  for (const auto& words : said) CHECK(words.find("rank 0: NCCL: remote process exited") != std::string::npos);
  std::string late;
  CHECK_THROWS_AS(run_nccl_threads<kolo::nccl::transport>(1,
                                                          [&](auto& comm) {
                                                            const kolo::cuda::stream s;
                                                            tensor<float> x{of_rank(0, 10), s};
                                                            kolo::cuda::fill(x.data(), 0, 4, s);
                                                            cuda_double::the.streams.at(s)->is_stuck = true;
                                                            late = words_of([&] {
                                                              comm.transport().wait({.timeout = 50ms, .stream = s});
                                                            });
                                                            comm.transport().wait({.stream = s});
                                                          }),
                  kolo::error);
  CHECK(late.find("the stream has not come to its end within 0.05") != std::string::npos);
}

TEST_CASE(
    "nccl: a rank that does not join ncclCommInitRank is a timeout on all ranks; the host's communicator goes on") {
  std::vector<std::string> said(3);
  std::vector<int> sums(3);
  kolo::threads::run(3, [&](auto& host) {
    const auto r = static_cast<std::size_t>(host.rank());
    nccl_double::stays_away = r == 1;
    said[r] = words_of([&] { kolo::nccl::communicator comm{host, kolo::nccl::options{.timeout = 50ms}}; });
    std::vector<int> x{1};
    kolo::allreduce(host, x, kolo::sum);
    sums[r] = x[0];
  });
  for (const auto& words : said)
    CHECK(words.find("ncclCommInitRankConfig has not come to its end within 0.05") != std::string::npos);
  CHECK(sums == std::vector<int>{3, 3, 3});
  CHECK(nccl_double::alive == 0);
  CHECK(nccl_double::aborted == 3);
  nccl_double::reset();
}

TEST_CASE("nccl: an asynchronous error during a wait ends both ranks' calls") {
  std::vector<std::string> said(2);
  CHECK_THROWS_AS(
      run_nccl_threads<kolo::nccl::transport>(
          2,
          [&](auto& comm) {
            const kolo::cuda::stream s;
            tensor<float> x{of_rank(0, 10), s};
            auto* const own = comm.transport().native_handle();
            if (comm.rank() == 0) own->fault_after = own->asked + 30;
            if (comm.rank() == 1)
              said[1] = std::string{std::string_view{laws::end_of_waiting(comm.transport(), 0).text}};
            else said[0] = words_of([&] { kolo::allreduce(comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s}); });
            comm.transport().wait({.stream = s});
          }),
      kolo::error);
  for (const auto& words : said) CHECK(words.find("remote process exited") != std::string::npos);
}

TEST_CASE("nccl: a failed ncclCommSplit on one rank is an error on all ranks, and nothing is leaked") {
  std::vector<std::string> said(2);
  CHECK_THROWS_AS(kolo::threads::run(2,
                                     [&](auto& host) {
                                       kolo::nccl::communicator comm{host};
                                       if (comm.rank() == 1) nccl_double::fails = "ncclCommSplit";
                                       said[static_cast<std::size_t>(comm.rank())] =
                                           words_of([&] { comm.split(0, 0); });
                                       comm.transport().wait();
                                     }),
                  kolo::error);
  for (const auto& words : said) CHECK(words.find("rank 1: ncclCommSplit: invalid usage") != std::string::npos);
  CHECK(nccl_double::alive == 0);
  nccl_double::reset();
}

TEST_CASE("nccl: communicators are destroyed after success, and aborted after a failure") {
  cuda_double::the.takes_all_memory = false;
  kolo::threads::run(2, [](auto& host) {
    kolo::nccl::communicator comm{host};
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(comm.rank(), 10), s};
    auto part = comm.split(-5, -comm.rank());
    kolo::allreduce(part, x.view(), kolo::sum, {.stream = s});
  });
  CHECK(nccl_double::alive == 0);
  CHECK(nccl_double::destroyed == 4);
  CHECK(nccl_double::misuse == "");
  nccl_double::reset();
  kolo::threads::run(2, [](auto& host) {  // the deadline also holds for the destructor
    auto comm = std::make_unique<kolo::nccl::communicator>(host, kolo::nccl::options{.timeout = 1s});
    kolo::barrier(host);
    if (host.rank() == 0) comm.reset();
    kolo::barrier(host);
  });
  CHECK(nccl_double::alive == 0);
  CHECK(nccl_double::aborted == 2);
  CHECK(nccl_double::misuse == "");
  nccl_double::reset();
  CHECK_THROWS_AS(kolo::threads::run(2,
                                     [](auto& host) {
                                       kolo::nccl::communicator comm{host};
                                       if (comm.rank() == 0) throw kolo::error{kolo::errc::system, "mine"};
                                       kolo::barrier(comm);
                                       comm.transport().wait();
                                     }),
                  kolo::error);
  CHECK(nccl_double::alive == 0);
  CHECK(nccl_double::aborted == 2);
  nccl_double::reset();
}

TEST_CASE("nccl: destroying a failed communicator frees nothing that its stream may still access") {
  cuda_double::the.takes_all_memory = false;
  std::barrier both{2};
  bool has_freed[2]{};
  kolo::threads::run(2, [&](auto& host) {
    std::optional<kolo::nccl::communicator> comm{std::in_place, host};
    const kolo::cuda::stream s;
    tensor<float> x{of_rank(host.rank(), 10), s};
    std::optional plan{kolo::plan_allreduce(*comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s})};
    for (int k = 0; k < 3; ++k) plan->run();  // now it is captured, and the ranks have agreed on it
    kolo::allreduce(*comm, x.view(), kolo::sum, kolo::ring{}, {.stream = s});
    comm->transport().wait({.stream = s});
    both.arrive_and_wait();
    if (host.rank() == 0) comm->transport().native_handle()->fault = ncclRemoteError;
    while (words_of([&] { comm->transport().wait({.stream = s}); }).empty()) std::this_thread::yield();
    both.arrive_and_wait();
    const auto frees = cuda_double::the.frees;
    both.arrive_and_wait();
    plan.reset();
    comm.reset();
    both.arrive_and_wait();
    has_freed[host.rank()] = cuda_double::the.frees != frees;
    both.arrive_and_wait();
  });
  CHECK_FALSE(has_freed[0]);
  CHECK_FALSE(has_freed[1]);
  nccl_double::reset();
}

TEST_CASE(
    "nccl: without a GPU, or if NCCL fails, the constructor throws on all ranks; the host's communicator goes on") {
  std::vector<std::string> said(2);
  std::vector<int> sums(2);
  const auto attempt = [&](auto& host) {
    const auto r = static_cast<std::size_t>(host.rank());
    said[r] = words_of([&] { kolo::nccl::communicator comm{host}; });
    std::vector<int> x{1};
    kolo::allreduce(host, x, kolo::sum);
    sums[r] = x[0];
  };
  cuda_double::the.devices = 0;
  kolo::threads::run(2, attempt);
  cuda_double::the.devices = 1;
  CHECK(said[0].find("needs a GPU and its driver, and this process sees none (CUDA driver version is insufficient") !=
        std::string::npos);
  CHECK(sums == std::vector<int>{2, 2});
  kolo::threads::run(2, [&](auto& host) {
    if (host.rank() == 0) nccl_double::fails = "ncclGetUniqueId";
    attempt(host);
  });
  for (const auto& words : said) CHECK(words.find("rank 0: ncclGetUniqueId: invalid usage") != std::string::npos);
  CHECK(sums == std::vector<int>{2, 2});
  kolo::threads::run(2, [&](auto& host) {
    said[static_cast<std::size_t>(host.rank())] = words_of([&] {
      kolo::nccl::communicator comm{host, kolo::nccl::options{.timeout = std::chrono::seconds{0}}};
    });
  });
  for (const auto& words : said)
    CHECK(words.find("the deadline of a communicator must be greater than 0") != std::string::npos);
  nccl_double::reset();
}

TEST_CASE("the fake NCCL: a call that matches one of an aborted communicator does not touch its stream") {
  ncclUniqueId id{};
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr, second = nullptr;
  CHECK(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 1, &config) == ncclSuccess);
  char byte = 0;
  {
    const kolo::cuda::stream gone;
    CHECK(ncclSend(&byte, 1, ncclUint8, 1, first, gone) == ncclSuccess);
    CHECK(ncclCommAbort(first) == ncclSuccess);
  }
  const kolo::cuda::stream s;
  CHECK(ncclRecv(&byte, 1, ncclUint8, 0, second, s) == ncclSuccess);
  CHECK(ncclCommAbort(second) == ncclSuccess);
  nccl_double::reset();
}
