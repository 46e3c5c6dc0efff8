// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slots of threads and processes beyond the laws: the first failure, also where who says one is stopped meanwhile.
#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <atomic>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// In a page that stops whoever reads it first.
kolo::failure* to_say;

kolo::detail::os::process_id dead_process() {
  testing::child c{[] { return std::string{}; }};
  const kolo::detail::os::process_id id{c.pid(), 1};  // whatever has that number later started at another time
  c.result();
  return id;
}

kolo::failure failure_of(int rank) {
  kolo::failure f;
  f.code = kolo::errc::peer_died;
  f.peer = rank;
  return f;
}

}  // namespace

TEST_CASE("four ranks share less than 8 MB, and what transport/README.md says; one rank needs no slots") {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 4;
  CHECK(shape.bytes() < 8'000'000);
  CHECK((shape.bytes() + 50'000) / 100'000 == 48);
  shape.ranks = 1;
  CHECK(shape.bytes() < shape.slot_bytes);
}

TEST_CASE("a failure is that of the first who says one, for all and for good") {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 3;
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1}, c{memory, region, shape, 2};
  CHECK(a.failed() == nullptr);
  CHECK(b.fail(failure_of(1)).peer == 1);
  CHECK(c.fail(failure_of(2)).peer == 1);
  CHECK(b.fail(failure_of(0)).peer == 1);
  REQUIRE(c.failed());
  CHECK(c.failed()->code == kolo::errc::peer_died);
}

TEST_CASE("nobody waits for a rank that is stopped while it says a failure") {
  static common<std::atomic<pid_t>> stopped;
  const auto end = on_processes(2, [](auto& comm) -> std::string {
    ::alarm(30);  // who waits for ever is killed
    kolo::barrier(comm);
    if (comm.rank() == 0) {
      while (*stopped == 0) ::sched_yield();
      const auto said = end_of([&] { kolo::barrier(comm, {.timeout = 100ms}); });
      ::kill(*stopped, SIGCONT);
      return said;
    }
    void* const page =
        ::mmap(nullptr, kolo::detail::shm::page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    to_say = new (page) kolo::failure{failure_of(0)};
    ::mprotect(page, kolo::detail::shm::page_size(), PROT_NONE);
    ::signal(SIGSEGV, [](int) {
      ::mprotect(to_say, kolo::detail::shm::page_size(), PROT_READ | PROT_WRITE);
      *stopped = ::getpid();
      ::raise(SIGSTOP);
    });
    return "peer " + std::to_string(comm.transport().fail(*to_say).peer);
  });
  CHECK(end.said == std::vector<std::string>{"timeout 1", "peer 1"});
  CHECK(end.clean);
}

TEST_CASE("a peer that has died is noticed by whoever waits, whomever it waits for") {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 3;
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1}, c{memory, region, shape, 2};
  kolo::detail::shm::state_of(memory.map(region, shape.bytes()).get(), 2).id = dead_process();
  try {
    for (kolo::backoff p;;) a.relax(p, {.operation = "test", .peer = 1, .timeout = std::chrono::seconds{20}});
  } catch (const kolo::error& e) {
    CHECK(e.code() == kolo::errc::peer_died);
    CHECK(e.peer() == 2);
  }
  CHECK(b.failed());
}
