// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data that is sent and received in one round is not overwritten before it has been sent, however slow the peer is.
#include <kolo/collective/allreduce.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <array>
#include <cstring>
#include <vector>

#include "support/catch.hpp"

namespace {

/// Two ranks exchange all of their eight blocks in one round: more than there are slots.
struct exchange {
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int) { return 8; }
  static constexpr int rounds(int) { return 1; }
  static constexpr bool supports(int p) { return p == 2; }
  static constexpr kolo::step at(int r, int, int) {
    return kolo::transfer{
        .to = 1 - r, .send = {0, 8}, .from = 1 - r, .receive = {0, 8}, .then = kolo::arrival::in_rank_order};
  }
};

using piece = std::array<int, 16>;  // of the size of a slot

}  // namespace

TEST_CASE("a rank whose slots are full keeps the data that it has not sent yet") {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 2;
  shape.lines = shape.slots;
  shape.slot_bytes = sizeof(piece);
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::communicator rank_0{memory, region, shape, 0};
  kolo::threads::transport rank_1{memory, region, shape, 1};  // driven by hand

  std::vector<int> x(8 * 16, 5);
  auto request = kolo::start_allreduce(rank_0, x, kolo::sum, exchange{});
  REQUIRE_FALSE(request.test());
  const auto tag = rank_1.peek(0).tag;
  const auto send = [&](int pieces) {
    for (int k = 0; k < pieces; ++k) {
      auto* to = rank_1.reserve(0);
      REQUIRE(to);
      const piece mine{100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100};
      std::memcpy(to, &mine, sizeof mine);
      rank_1.commit(0, sizeof mine, tag);
    }
  };
  const auto slots = static_cast<int>(shape.slots);
  send(slots);
  REQUIRE_FALSE(request.test());  // receives as many as it has sent
  send(8 - slots);                // and must not receive these: rank 1 has released nothing
  REQUIRE_FALSE(request.test());
  for (int k = 0; k < 8; ++k) {
    if (!rank_1.peek(0).data) request.test();
    REQUIRE(rank_1.peek(0).data);
    piece theirs;
    std::memcpy(&theirs, rank_1.peek(0).data, sizeof theirs);
    CHECK(theirs[0] == 5);
    CHECK(theirs[15] == 5);
    rank_1.release(0);
  }
  CHECK(request.test());
  CHECK(x == std::vector<int>(8 * 16, 105));
}
