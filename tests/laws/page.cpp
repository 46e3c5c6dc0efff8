// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws, for the transport that include/kolo/transport/README.md shows; and its decorator.
#include <page_transport.hpp>

#include "laws/message_laws.hpp"
#include "support/catch.hpp"

namespace {

constexpr int sizes[] = {1, 2, 3, 4, 7};

/// The result of each rank.
template <class Law>
std::vector<std::string> among(int p, Law law) {
  const auto all = std::make_shared<hub>(p);
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  std::vector<std::jthread> ranks;
  for (int r = 0; r < p; ++r)
    ranks.emplace_back([&, r] {
      kolo::communicator<queue_transport> comm{all, r};
      said[static_cast<std::size_t>(r)] = law(comm.transport());
    });
  ranks.clear();
  return said;
}
std::vector<std::string> all_say(int p, const std::string& words) {
  return std::vector<std::string>(static_cast<std::size_t>(p), words);
}

}  // namespace

TEST_CASE("the page's transport: the laws of Transport") {
  for (const int p : sizes) {
    CHECK(among(p, laws::is_constant) == all_say(p, ""));
    CHECK(among(p, laws::failure_wakes_everybody) == all_say(p, ""));
    CHECK(among(p, laws::split_orders_by_key_and_rank) == all_say(p, ""));
    const auto winner = among(p, laws::keeps_the_first_failure);
    CHECK(winner[0].starts_with("first "));
    CHECK(winner == all_say(p, winner[0]));
  }
  for (const int p : {2, 3}) CHECK(among(p, laws::deadline_passes) == all_say(p, ""));
}

TEST_CASE("the page's transport: the laws of MessageTransport") {
  for (const int p : sizes) CHECK(among(p, laws::messages_arrive_in_order) == all_say(p, ""));
  for (const int p : {2, 3}) {
    CHECK(among(p, laws::another_tag_is_a_mismatch)[0] == "");
    const auto said = among(p, laws::a_mismatch_is_told_alike);
    CHECK(said[0].find(" calls something else") != std::string::npos);
    CHECK(said == all_say(p, said[0]));
  }
}

TEST_CASE("the page's transport: a rank that throws is a failure of the others") {
  const auto said = among(3, [](auto& t) -> std::string {
    if (t.rank() == 1) {
      try {
        queue_transport own{std::move(t)};
        throw 1;
      } catch (int) {
        return "";
      }
    }
    const auto f = laws::end_of_waiting(t, 1);
    return f.code == kolo::errc::peer_failed && f.peer == 1 ? "" : "another failure";
  });
  CHECK(said == all_say(3, ""));
}

TEST_CASE("the page's decorator: wraps a transport, and its split communicators are decorated as well") {
  static_assert(kolo::SlotTransport<jitter<kolo::threads::transport>>);
  kolo::threads::run(3, [](auto& comm) {
    kolo::communicator<jitter<kolo::threads::transport>> slow{comm.transport().split(0, comm.rank())};
    auto pair = slow.split(comm.rank() == 2, comm.rank());
    std::vector<int> x(100'000, comm.rank() + 1), y = x;
    kolo::allreduce(slow, x, kolo::sum);
    kolo::allreduce(pair, y, kolo::sum);
    if (x != std::vector<int>(x.size(), 6) || y != std::vector<int>(y.size(), 3))
      throw std::runtime_error{"other sums"};
  });
}
