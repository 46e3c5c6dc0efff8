// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives, and the training of examples/digits, over the transport of tcp.hpp.
// With KOLO_TCP_ADDRESS=host:port KOLO_RANK=r KOLO_SIZE=n the process is one rank; otherwise it starts --ranks ranks on this host.
#include "../digits/joined.hpp"
#include "tcp.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Microseconds on the slowest rank: the median of seven calls.
template <class Call>
double microseconds(tcp::communicator& comm, Call call) {
  std::vector<double> all;
  for (int k = 0; k < 7; ++k) {
    kolo::barrier(comm);
    const auto begun = tcp::clock::now();
    call();
    all.push_back(std::chrono::duration<double, std::micro>(tcp::clock::now() - begun).count());
  }
  kolo::allreduce(comm, all, kolo::max);
  std::nth_element(all.begin(), all.begin() + 3, all.end());
  return all[3];
}

void expect(bool holds, const char* sentence) {
  if (!holds) throw std::runtime_error(std::string{"check failed: "} + sentence);
}

void exchange(tcp::communicator& comm) {
  const auto p = std::size_t(comm.size());
  const int ranks = comm.size(), rank = comm.rank();
  kolo::on_root(comm, [&] {
    const auto s = [](int n) { return n == 1 ? "" : "s"; };
    const int nodes = comm.node_count();
    std::printf("%d rank%s over TCP on %d node%s; microseconds per call:\n", ranks, s(ranks), nodes, s(nodes));
    std::printf("%10s %10s %10s %10s\n", "Bytes", "allreduce", "broadcast", "alltoall");
  });
  for (std::size_t bytes = 64; bytes <= 16 << 20; bytes *= 8) {
    const std::size_t n = bytes / sizeof(int) / p * p;
    std::vector<int> in(n, rank), out(n);
    const double sum = microseconds(comm, [&] { kolo::allreduce(comm, in, out, kolo::sum); });
    const auto all_are = [&](int value) { return std::count(out.begin(), out.end(), value) == std::ptrdiff_t(n); };
    expect(all_are(ranks * (ranks - 1) / 2), "allreduce gives the sum of all ranks' values");
    out = in;
    const double copy = microseconds(comm, [&] { kolo::broadcast(comm, out, ranks - 1); });
    expect(all_are(ranks - 1), "broadcast gives the root's values");
    const double swap = microseconds(comm, [&] { kolo::alltoall(comm, in, out); });
    for (std::size_t i = 0; i < n; ++i) expect(out[i] == int(i / (n / p)), "alltoall gives a part from every rank");
    kolo::on_root(comm, [&] { std::printf("%10zu %10.0f %10.0f %10.0f\n", n * sizeof(int), sum, copy, swap); });
  }
  kolo::on_root(comm, [] { std::printf("\n"); });
}

/// Rank 0 leaves as soon as it has sent a broadcast; the data must still arrive.
void check_early_leave(tcp::communicator& comm) {
  std::vector<int> x(1 << 20, comm.rank() == 0 ? 7 : 0);
  kolo::broadcast(comm, x, 0, kolo::one_shot{});
  expect(std::count(x.begin(), x.end(), 7) == std::ptrdiff_t(x.size()), "data that a rank sent before it left arrives");
}

int run_rank(tcp::communicator comm, const digits::settings& s) {
  exchange(comm);
  const int status = digits::train_joined(comm, s);
  check_early_leave(comm);
  return status;
}

template <class F>
int with_errors_printed(F f) {
  try {
    return f();
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "own_transport: %s\n", e.what());
    return 1;
  }
}

/// Starts `ranks` processes that connect through a free port of this host.
int start(int ranks, const digits::settings& s) {
  tcp::socket listener = tcp::listen_at("127.0.0.1:0");
  const auto address = tcp::text(tcp::endpoint_of(listener));
  std::fflush(stdout);
  std::vector<pid_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int status = with_errors_printed([&] {
        tcp::socket its = rank == 0 ? std::move(listener) : tcp::socket{};
        return run_rank(tcp::communicator{address, rank, ranks, tcp::options{}, std::move(its)}, s);
      });
      std::fflush(stdout);
      ::_exit(status);
    }
    if (child < 0) throw std::runtime_error("a rank could not be started");
    all.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : all) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) worst = 1;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const auto settings = digits::parse(argc, argv);
  return with_errors_printed([&] {
    if (std::getenv("KOLO_TCP_ADDRESS")) return run_rank(tcp::world(), settings);
    int status = 0;
    for (const int ranks : settings.ranks) status = std::max(status, start(ranks, settings));
    return status;
  });
}
