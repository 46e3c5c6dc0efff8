// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tools for observing a communicator: checked calls, counts of bytes, traces, injected faults, explained choices of algorithms.
#include "expect.hpp"

#include <kolo/checked.hpp>
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/observe/faulty.hpp>
#include <kolo/observe/traced.hpp>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

using transport = kolo::threads::transport;
using namespace std::chrono_literals;

/// Ranks pass different lengths. A checked communicator compares calls, and every rank gets an error before data moves.
void two_lengths() {
  kolo::threads::run(2, [](auto& plain) {
    kolo::communicator<kolo::checked<transport>> comm{plain.transport().split(0, plain.rank())};  // or KOLO_CHECKED=1, or the option `checked`
    std::vector<int> x(comm.rank() == 0 ? 10u : 11u);
    try {
      kolo::allreduce(comm, x, kolo::sum);
      expect(false, "lengths differ");
    } catch (const kolo::error& e) {
      expect(e.code() == kolo::errc::mismatch && e.elapsed() >= 0ns && e.buffers_in_use() == 0, "every rank gets the error");
    }
  });
}

/// Counted bytes equal the cost of the schedule.
void bytes() {
  kolo::threads::run(4, [](auto& plain) {
    kolo::communicator<kolo::counted<transport>> comm{plain.transport().split(0, plain.rank())};
    std::vector<int> x(64, 1);
    kolo::allreduce(comm, x, kolo::sum, kolo::recursive_doubling{});
    const kolo::traffic all = comm.transport().total();
    expect(all.bytes_sent == 2 * 256 && all.messages_sent == 2 && all.bytes_received == 2 * 256 && all.messages_received == 2,
           "log2(4) rounds of the whole vector");
  });
}

void events() {
  kolo::threads::run(2, [](auto& plain) {
    kolo::communicator<kolo::traced<transport>> comm{plain.transport().split(0, plain.rank())};
    kolo::watch(comm);  // labels events with call and round
    std::vector<float> x(100'000);
    kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
    const kolo::trace_log& log = comm.transport().log();  // <kolo/adapt/chrome_trace.hpp> converts it for a trace viewer
    expect(log.size() > 0, "there were events");
    const kolo::trace_event& first = log[0];
    expect(std::string_view{first.operation} == "allreduce" && first.round == 0 && first.peer == 1 - comm.rank(), "the first event is of the call");
    const kolo::clock_offset clock = kolo::clock_offset_of(comm.transport());
    expect(clock.ns == 0, "ranks of one host have one clock");
  });
}

/// Rank 1 leaves in the first round of its second call. Use this to test a program's handling of failures.
void a_fault() {
  kolo::threads::run(2, [](auto& plain) {
    kolo::communicator<kolo::faulty<transport>> comm{plain.transport().split(0, plain.rank())};
    kolo::inject_fault(comm, {.what = kolo::fault_kind::leave, .rank = 1, .operation = 2});
    kolo::barrier(comm);
    try {
      kolo::barrier(comm);
      expect(false, "rank 1 has left");
    } catch (const kolo::error& e) {
      const kolo::failure& why = e.cause();
      expect(e.peer() == 1 && why.rank == 1 && why.waited_ns >= 0, "both errors name rank 1");
    }
  });
}

/// Measures a tuning table on this machine, and explains the choice of an algorithm by it.
void choices() {
  kolo::threads::run(2, [](auto& comm) {
    const kolo::tuning measured = kolo::fit(comm);
    auto same = comm.split(0, comm.rank());
    kolo::use_tuning(same, measured);  // later runs with the same table make the same choices, and give the same bits
    const kolo::explanation why = kolo::explain(same, kolo::kind::allreduce, 1 << 20, {.converts = false, .native = false});
    expect(why.ranks == 2 && !why.choice.empty() && !why.reason.empty(), "there is a reason");
    for (const auto& one : why.candidates) expect(one.is_admitted || !one.remark.empty(), "a candidate that is not admitted has a remark");
    if (comm.rank() == 0) std::printf("%s", why.message().c_str());
  });
}

int main() {
  std::printf("kolo %d.%d.%d\n", kolo::version_major, kolo::version_minor, kolo::version_patch);
  two_lengths(), bytes(), events(), a_fault(), choices();
}
