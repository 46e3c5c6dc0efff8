// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws for ranks in virtual time: on one level, on two, and on two with cards.
#include <kolo/simulate/simulated.hpp>

#include "laws/message_laws.hpp"
#include "support/catch.hpp"

namespace {

static_assert(kolo::MessageTransport<kolo::virtual_time::transport> &&
              !kolo::SlotTransport<kolo::virtual_time::transport>);

constexpr int sizes[] = {1, 2, 3, 4, 7};
constexpr kolo::simulate::network networks[] = {{},
                                                {.ranks_per_node = 2, .noise = 0.5, .seed = 3},
                                                {.seconds_per_byte = 1e-6, .ranks_per_node = 4, .cards_per_node = 1}};

template <class Law>
std::vector<std::string> on(const kolo::simulate::network& n, int p, Law law) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  kolo::virtual_time::run(p, n,
                          [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); },
                          {.piece_bytes = 100});
  return said;
}

template <class Law>
void expect(int p, Law law, const std::string& words = "") {
  for (const auto& n : networks) CHECK(on(n, p, law) == std::vector<std::string>(static_cast<std::size_t>(p), words));
}

}  // namespace

TEST_CASE("simulated: rank, size, timeout and place are constant") {
  for (const int p : sizes) expect(p, laws::is_constant);
}

TEST_CASE("simulated: the first failure stays, and is always that of rank 0") {
  for (const int p : sizes) expect(p, laws::keeps_the_first_failure, "first 0");
}

TEST_CASE("simulated: a failure wakes all ranks") {
  for (const int p : sizes)
    expect(p, laws::failure_wakes_everybody), expect(p, laws::failure_of_the_last_wakes_everybody);
}

TEST_CASE("simulated: a timeout fails all ranks") {
  for (const int p : {2, 3}) expect(p, laws::deadline_passes);
}

TEST_CASE("simulated: split orders ranks by key and rank") {
  for (const int p : {1, 2, 3, 4, 7, 12, 17}) expect(p, laws::split_orders_by_key_and_rank);
}

TEST_CASE("simulated: a failure in another group is passed on") {
  for (const int p : {3, 4, 7}) expect(p, laws::passes_on_what_failed_elsewhere);
}

TEST_CASE("simulated: the laws of MessageTransport") {
  for (const int p : sizes) expect(p, laws::messages_arrive_in_order);
  for (const int p : {2, 3})
    for (const auto& n : networks) {
      CHECK(on(n, p, laws::another_tag_is_a_mismatch)[0] == "");
      const auto said = on(n, p, laws::a_mismatch_is_told_alike);
      CHECK(said[0].find(" does something else") != std::string::npos);
      CHECK(said == std::vector<std::string>(said.size(), said[0]));
    }
}
