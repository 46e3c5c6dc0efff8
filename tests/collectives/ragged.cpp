// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random calls with parts of any lengths, through slots of 64 bytes: right results on each rank, and no deadlock. KOLO_RAGGED_SECONDS=600 [KOLO_RAGGED_SEED=n]
// runs others for that many seconds; KOLO_RAGGED_CASE=n repeats a failed case.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "collectives/drawn_calls.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

constexpr std::size_t tiny_slot = 64;
#ifdef KOLO_SANITIZED
constexpr int share = 8;  // the divisor of the number of cases
#else
constexpr int share = 1;
#endif

/// A transport that counts the events of all transports of its type.
struct watched : kolo::threads::transport {
  using kolo::threads::transport::slot_transport;
  explicit watched(kolo::threads::transport&& t) : slot_transport{std::move(t)} {}
  static inline std::uint64_t events = 0;

  std::uint64_t commit(int peer, std::size_t bytes, std::uint64_t tag, const kolo::indirect& where = {}) {
    return ++events, slot_transport::commit(peer, bytes, tag, where);
  }
  void release(int peer) { ++events, slot_transport::release(peer); }
  void post_exchange(int peer, std::size_t bytes, std::uint64_t tag) {
    ++events, slot_transport::post_exchange(peer, bytes, tag);
  }
  void end_exchange(int peer) { ++events, slot_transport::end_exchange(peer); }
  watched split(int color, int key) { return watched{slot_transport::split(color, key)}; }
};
static_assert(kolo::SharedMemoryTransport<watched>);

/// All ranks of one communicator on this thread, which progresses them in random order. Whether they deadlock does not depend on that order: a rank that can
/// progress can still do so later, whatever the others do meanwhile. So ranks that finish in one order finish in any order.
template <class Wire>
class in_turns {
 public:
  in_turns(const drawn_calls& calls, dice order, std::size_t slot_bytes = tiny_slot) : order_{order} {
    kolo::detail::shm::region_shape shape{calls.ranks, {.timeout = std::chrono::hours{1}, .slot_bytes = slot_bytes}};
    shape.slots = 1 + order_.below(4u);
    const auto region = kolo::threads::transport::initialise(memory_, shape);
    for (int r = 0; r < calls.ranks; ++r) ranks_.push_back(std::make_unique<one_rank>(memory_, region, shape, r));
    for (auto& one : ranks_)
      for (const drawn_call& c : calls.all) one->tasks.push_back(make_task(one->comm, c));
  }

  /// Returns what is wrong; empty if nothing.
  std::string play(bool again) {
    std::string wrong = finish_all([](one_rank& r) { r.requests.push_back(r.tasks[r.begun].start()); });
    if (again && wrong.empty()) wrong = finish_all([](one_rank& r) { r.requests[r.begun].restart(); });
    for (auto& one : ranks_)
      for (auto& t : one->tasks)
        if (wrong.empty()) wrong = t.check();
    return wrong;
  }

 private:
  struct one_rank {
    one_rank(kolo::detail::shm::private_mapping& memory, std::uint64_t region,
             const kolo::detail::shm::region_shape& shape, int r)
        : comm{memory, region, shape, r} {}
    kolo::communicator<Wire> comm;
    std::vector<task<kolo::communicator<Wire>>> tasks{};
    std::vector<kolo::request<Wire>> requests{};
    std::vector<std::size_t> open{};
    std::size_t begun = 0;
  };

  template <class Begin>
  std::string finish_all(Begin begin) {
    for (auto& one : ranks_) one->begun = 0;
    for (int idle_turns = 0; idle_turns < 3;) {
      const auto before = watched::events;
      bool some = false, all = true;
      const auto first = order_.below(ranks_.size());
      for (std::size_t k = 0; k < ranks_.size(); ++k) {
        one_rank& r = *ranks_[(first + k) % ranks_.size()];
        if (r.begun < r.tasks.size() && (r.open.empty() || order_.one_in(2)))
          begin(r), r.open.push_back(r.begun++), some = true;
        if (!r.open.empty() && order_.one_in(3)) std::swap(r.open.front(), r.open[order_.below(r.open.size())]);
        if (!r.open.empty() && r.requests[r.open.front()].test()) r.open.erase(r.open.begin()), some = true;
        all = all && r.begun == r.tasks.size() && r.open.empty();
      }
      if (all) return "";
      idle_turns = some || watched::events != before ? 0 : idle_turns + 1;
    }
    return report_deadlock();
  }

  std::string report_deadlock() {
    std::string where = "deadlock:";
    for (auto& one : ranks_)
      if (!one->open.empty())
        where += " " + std::to_string(one->comm.rank()) + " in " + one->tasks[one->open.front()].text + ",";
    ranks_[0]->comm.transport().fail(kolo::failure_from({}, kolo::errc::timeout, 0, {}, "deadlock"));
    return where;
  }

  kolo::detail::shm::private_mapping memory_{};
  std::vector<std::unique_ptr<one_rank>> ranks_{};
  dice order_;
};

/// The same on threads: some ranks make blocking calls, others nonblocking ones.
std::string on_threads(const drawn_calls& calls, dice order) {
  return on_ranks(
      calls.ranks,
      [&](auto& comm, complaints& wrong) {
        dice own{mixed(dice{order}.draw(), static_cast<std::uint64_t>(comm.rank()))};
        for (const drawn_call& c : calls.all) {
          auto t = make_task(comm, c);
          if (own.one_in(2)) t.run();
          else t.start().wait();
          wrong.expect(t.check().empty(), t.check());
        }
      },
      tiny_slot);
}

enum class over { slots, messages, threads };

std::string play(std::uint64_t seed, over how) {
  dice d{seed};
  const drawn_calls calls{d, tiny_slot, how == over::threads};
  const bool again = d.one_in(4) && calls.are_repeatable();
  const dice order{d.draw()};
  std::string wrong;
  try {
    if (how == over::slots) wrong = in_turns<watched>{calls, order}.play(again);
    else if (how == over::messages) wrong = in_turns<kolo::messages<watched>>{calls, order}.play(again);
    else wrong = on_threads(calls, order);
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  return wrong.empty()
             ? wrong
             : "KOLO_RAGGED_CASE=" + std::to_string(seed) + ", " + std::to_string(calls.ranks) + " ranks: " + wrong;
}

/// Runs `usually` fixed cases, or those that the environment requests.
std::string play_many(over how, int usually) {
  const auto asked = [](const char* name) -> const char* { return std::getenv(name); };
  if (const char* one = asked("KOLO_RAGGED_CASE")) return play(std::strtoull(one, nullptr, 0), how);
  const std::uint64_t seed = asked("KOLO_RAGGED_SEED") ? std::strtoull(asked("KOLO_RAGGED_SEED"), nullptr, 0) : 1;
  const double seconds = asked("KOLO_RAGGED_SECONDS") ? std::strtod(asked("KOLO_RAGGED_SECONDS"), nullptr) : 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int n = 0;
  std::string wrong;
  for (; wrong.empty() && (n < usually || std::chrono::steady_clock::now() < end); ++n)
    wrong = play(mixed(seed, static_cast<std::uint64_t>(n)), how);
  if (seconds > 0) std::printf("%d cases\n", n);
  return wrong;
}

/// One ragged alltoall of p ranks: rank `from` sends `quarters(from, to)` quarters of a slot to rank `to`.
template <class Wire, class Length>
std::string alltoall(int p, Length quarters) {
  for (const std::size_t slot : {tiny_slot, usual_slot})
    for (const char* algorithm : {"one_shot", "pairwise"}) {
      const drawn_calls calls{p, {drawn_call::alltoall(p, algorithm, [&](int from, int to) {
                                return quarters(from, to) * slot / sizeof(int) / 4;
                              })}};
      if (const auto wrong = in_turns<Wire>{calls, dice{1}, slot}.play(false); !wrong.empty()) return wrong;
    }
  return "";
}

}  // namespace

TEST_CASE("ragged alltoall: a rank's part for itself or for a third rank does not affect two others") {
  for (const std::size_t few : {1u, 2u, 3u, 4u}) {
    if (is_sanitized && few % 2 == 0) continue;
    const auto own = [few](int from, int to) { return from + to == 0 ? 9u : from == to ? 1u : few; };
    const auto third = [few](int from, int to) { return from + to == 2 && from != to ? 9u : few; };
    const auto one_way = [few](int from, int to) { return from == 0 && to == 2 ? 9u : from == to ? 0u : few; };
    const auto unlike = [few](int from, int to) { return from < to ? 6u : few; };
    CHECK(alltoall<watched>(2, own) == "");
    CHECK(alltoall<watched>(3, third) == "");
    CHECK(alltoall<watched>(3, one_way) == "");
    CHECK(alltoall<watched>(3, unlike) == "");
    CHECK(alltoall<kolo::messages<watched>>(3, third) == "");
    CHECK(alltoall<kolo::messages<watched>>(3, one_way) == "");
  }
}

TEST_CASE("random calls over slots have right results and do not deadlock") {
  CHECK(play_many(over::slots, 500 / share) == "");
}
TEST_CASE("random calls over messages have right results and do not deadlock") {
  CHECK(play_many(over::messages, 250 / share) == "");
}
TEST_CASE("random calls on threads, blocking on some ranks and nonblocking on others, have right results") {
  CHECK(play_many(over::threads, 40 / share) == "");
}
