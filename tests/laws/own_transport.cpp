// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws, for the transport of examples/own_transport: ranks that share nothing but TCP connections.
#include <atomic>

#include "laws/message_laws.hpp"
#include "support/catch.hpp"
#include "support/tcp_threads.hpp"

using namespace testing;

namespace {

static_assert(kolo::MessageTransport<tcp::transport> && !kolo::SlotTransport<tcp::transport>);

constexpr int sizes[] = {1, 2, 3, 4, 5};

template <class Law>
std::vector<std::string> over_tcp(int p, Law law, std::size_t piece_bytes = 65'536, const char* where = "127.0.0.1:0") {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  run_tcp_threads(
      p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = law(comm.transport()); },
      {.timeout = std::chrono::seconds{20}, .piece_bytes = piece_bytes}, where);
  return said;
}
std::vector<std::string> all_say(int p, const std::string& what) {
  return std::vector<std::string>(static_cast<std::size_t>(p), what);
}

template <class Law>
void obeys(Law law, std::initializer_list<int> ranks = {1, 2, 3, 4, 5}) {
  for (const int p : ranks) CHECK(over_tcp(p, law) == all_say(p, ""));
}

}  // namespace

TEST_CASE("own transport: rank, size, timeout and place are constant") { obeys(laws::is_constant); }
TEST_CASE("own transport: a failure wakes all ranks") { obeys(laws::failure_wakes_everybody); }
TEST_CASE("own transport: a failure of the last rank wakes all ranks") {
  obeys(laws::failure_of_the_last_wakes_everybody);
}
TEST_CASE("own transport: a timeout fails all ranks") { obeys(laws::deadline_passes, {2, 3}); }
TEST_CASE("own transport: split orders ranks by key and rank") {
  obeys(laws::split_orders_by_key_and_rank, {1, 2, 3, 4, 7, 12});
}

TEST_CASE("own transport: the first failure stays") {
  for (const int p : sizes)
    for (int k = 0; k < 20; ++k) {
      std::atomic<int> ready = 0;
      const auto said = over_tcp(p, [&](auto& t) {
        for (++ready; ready < p;) std::this_thread::yield();  // all fail at the same time
        return laws::keeps_the_first_failure(t);
      });
      CHECK(said[0].starts_with("first "));
      CHECK(said == all_say(p, said[0]));
    }
}

TEST_CASE("own transport: messages arrive in order") {
  for (const int p : sizes)
    for (const std::size_t piece_bytes : {std::size_t{100}, std::size_t{64 * 1024}, std::size_t{4} << 20})
      CHECK(over_tcp(p, laws::messages_arrive_in_order, piece_bytes) == all_say(p, ""));
}

TEST_CASE("own transport: another tag is a mismatch") {
  for (const int p : {2, 3}) {
    CHECK(over_tcp(p, laws::another_tag_is_a_mismatch)[0] == "");
    const auto said = over_tcp(p, laws::a_mismatch_is_told_alike);
    CHECK(said[0].find(" does something else") != std::string::npos);
    CHECK(said == all_say(p, said[0]));
  }
}

TEST_CASE("own transport: over IPv6") {
  try {
    tcp::listen_at("[::1]:0");
  } catch (const kolo::error& e) {
    WARN("not run: " << e.what());
    return;
  }
  CHECK(over_tcp(3, laws::messages_arrive_in_order, 100, "[::1]:0") == all_say(3, ""));
  CHECK(over_tcp(3, laws::split_orders_by_key_and_rank, 100, "[::1]:0") == all_say(3, ""));
}
