// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in two transports under one communicator: which one a call uses, in what order, and whose failure it is.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/barrier.hpp>

#include <chrono>
#include <string>

#include "support/composite_threads.hpp"
#include "support/expect.hpp"

namespace {

using testing::expect, testing::good;

kolo::failure somebodys(int rank) {
  kolo::failure f;
  f.code = kolo::errc::system;
  f.rank = f.peer = rank;
  return f;
}

template <class C>
void calls(C& comm) {
  int x[]{1}, all[2]{};
  kolo::allreduce(comm, x, kolo::sum);
  expect(x[0] == 2 && comm.first().engine()->sequence == 1 && comm.second().engine()->sequence == 0);
  kolo::barrier(comm);
  expect(comm.first().engine()->sequence == 1 && comm.second().engine()->sequence == 2);
  auto sum = kolo::start_allreduce(comm, x, kolo::sum);
  auto gather = kolo::start_allgather(comm, x, all);
  expect(!comm.first().engine()->newest && comm.second().engine()->newest && x[0] == 4);
  auto again = kolo::start_allreduce(comm, x, kolo::sum);
  expect(!comm.second().engine()->newest && all[1] == 4 && comm.first().engine()->sequence == 5);
  again.wait();
}

/// The operation that a failure is reported under by the composite.
std::string name_of(kolo::origin found_in) {
  try {
    kolo::detail::transport::in_the_name_of("composite", [&] {
      throw kolo::error{failure_from({.operation = "split", .found_in = found_in}, kolo::errc::timeout, 0, {}, "late")};
    });
  } catch (const kolo::error& e) {
    return std::string{e.operation()};
  }
  return "";
}

/// With one rank, so that no other rank decides.
template <class C>
void failures(C& comm) {
  auto& slots = comm.second().transport();
  testing::message_transport& first = comm.first().transport();
  kolo::threads::transport& second = slots;
  second.fail(somebodys(5));
  try {
    for (kolo::backoff p;;) comm.first().transport().relax(p, {.timeout = std::chrono::milliseconds{100}});
  } catch (const kolo::error& e) {
    expect(e.peer() == 5);
  }
  expect(first.failed() && first.failed()->peer == 5);
}
template <class C>
void first_cause(C& comm) {
  kolo::threads::transport& second = comm.second().transport();
  second.fail(somebodys(6));
  expect(comm.first().transport().fail(somebodys(7)).peer == 6);
}

/// Rank 1 leaves after it has shrunk the second transport, and before the first one.
template <class C>
void lost_in_between(C& comm) {
  kolo::threads::transport& second = comm.second().transport();
  if (comm.rank() == 1) return static_cast<void>(second.shrink(std::chrono::seconds{5}));
  try {
    auto rest = comm.shrink();
    int x[]{1};
    kolo::allreduce(rest, x, kolo::sum);
    kolo::barrier(rest);
    expect(rest.size() == 2 && x[0] == 2);
  } catch (const kolo::error&) {
    good = false;
  }
}

}  // namespace

int main() {
  expect(name_of(kolo::origin::setup) == "composite" && name_of(kolo::origin::call) == "split");
  const kolo::threads::options o{.timeout = std::chrono::seconds{5}};
  testing::run_composite_threads(
      2, [](auto& comm) { calls(comm); }, o);
  testing::run_composite_threads(
      1, [](auto& comm) { failures(comm); }, o);
  testing::run_composite_threads(
      1, [](auto& comm) { first_cause(comm); }, o);
  testing::run_composite_threads(
      3, [](auto& comm) { lost_in_between(comm); }, o);
  return good ? 0 : 1;
}
