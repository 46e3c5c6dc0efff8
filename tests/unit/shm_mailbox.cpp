// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slots of threads and processes beyond the laws: what becomes of a failure whose writer dies while it writes.
#include <kolo/transport/threads.hpp>

#include "processes/children.hpp"
#include "support/catch.hpp"

namespace {

kolo::process_id dead_process() {
  testing::child c{[] { return std::string{}; }};
  const kolo::process_id id{c.pid(), 1};  // whatever has that number later started at another time
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

TEST_CASE("four ranks share less than 8 MB, and what the README says; one rank needs no slots") {
  kolo::detail::region_shape shape;
  shape.ranks = 4;
  CHECK(shape.bytes() < 8'000'000);
  CHECK((shape.bytes() + 50'000) / 100'000 == 47);
  shape.ranks = 1;
  CHECK(shape.bytes() < shape.slot_bytes);
}

TEST_CASE("a failure that a rank was writing down when it was killed is written by the next") {
  kolo::detail::region_shape shape;
  shape.ranks = 3;
  kolo::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1}, c{memory, region, shape, 2};
  const auto base = memory.map(region, shape.bytes());
  kolo::detail::board_of(base.get(), 1).id = dead_process();
  kolo::detail::head_of(base.get()).failed = kolo::detail::failure_being_set + 1;
  CHECK(a.failed() == nullptr);
  CHECK(a.fail(failure_of(1)).peer == 1);
  CHECK(c.fail(failure_of(2)).peer == 1);
  REQUIRE(c.failed());
  CHECK(c.failed()->code == kolo::errc::peer_died);
}

TEST_CASE("a peer that has died is noticed by whoever waits, whomever it waits for") {
  kolo::detail::region_shape shape;
  shape.ranks = 3;
  kolo::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1}, c{memory, region, shape, 2};
  kolo::detail::board_of(memory.map(region, shape.bytes()).get(), 2).id = dead_process();
  try {
    for (kolo::patience p;;) a.relax(p, {.operation = "test", .peer = 1, .timeout = std::chrono::seconds{20}});
  } catch (const kolo::error& e) {
    CHECK(e.code() == kolo::errc::peer_died);
    CHECK(e.peer() == 2);
  }
  CHECK(b.failed());
}
