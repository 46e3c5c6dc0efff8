// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The trace has everything that was sent, received and waited for, in the right rounds; its JSON is well-formed, and slices of a track do not overlap.
#include <kolo/adapt/chrome_trace.hpp>
#include <kolo/schedule/cost.hpp>
#include <kolo/simulate/simulated.hpp>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <map>
#include <tuple>

#include "collectives/any_call.hpp"
#include "collectives/ranks.hpp"
#include "laws/message_laws.hpp"
#include "laws/shared_memory_laws.hpp"
#include "laws/slot_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

using over_messages_wire = kolo::traced<message_transport>;
using over_slots_wire = kolo::traced<kolo::threads::transport>;
static_assert(kolo::MessageTransport<over_messages_wire> && !kolo::SlotTransport<over_messages_wire>);
static_assert(kolo::SharedMemoryTransport<over_slots_wire> && kolo::SharesMemory<over_slots_wire>);

template <class T, class F>
std::vector<std::string> on_traced(int p, F f) {
  return on_threads(p,
                    [&](auto& whole) {
                      kolo::communicator<T> comm{std::move(whole.transport())};
                      return std::string{f(comm)};
                    },
                    {.timeout = 20s, .slot_bytes = 4096});
}

/// The merged trace of five calls, the same on all ranks.
template <class T>
json trace_of(int p) {
  const auto said = on_traced<T>(p, [](auto& comm) {
    kolo::watch(comm);
    any_call(comm, kolo::ring::allreduce{}, 9000);
    any_call(comm, kolo::one_shot::allreduce{}, 10);
    any_call(comm, kolo::two_shot::allreduce{}, 30000);
    any_call(comm, kolo::binomial::broadcast{}, 10000);
    kolo::barrier(comm);
    return kolo::merged_chrome_trace(comm);
  });
  CHECK(said == all_say(p, said[0]));
  return json::parse(said[0]);
}

/// No slice begins before the previous one on its track has ended; each asynchronous event begins and ends once.
void expect_order(const json& events) {
  std::map<std::pair<int, int>, double> ended;
  std::map<std::string, int> open;
  int wrong = 0;
  for (const json& e : events) {
    const auto ph = e.at("ph").get<std::string>();
    if (ph == "X") {
      auto& end = ended[{e.at("pid"), e.at("tid")}];
      wrong += e.at("ts").get<double>() + 1e-4 < end || e.at("dur").get<double>() < 0;
      end = e.at("ts").get<double>() + e.at("dur").get<double>();
    } else if (ph == "b" || ph == "e") {
      wrong += ((open[e.at("id")] += ph == "b" ? 1 : 10) != (ph == "b" ? 1 : 11));
    } else {
      wrong += ph != "M" || !e.at("args").is_object();
    }
  }
  for (const auto& [id, both] : open) wrong += both != 11;
  CHECK(wrong == 0);
}

/// For each pair and operation, what one rank sent, the other received.
void expect_all(const json& events, int p, int calls = 5) {
  std::map<std::tuple<int, int, int>, std::int64_t> bytes;  // from, to, operation
  for (const json& e : events) {
    if (e.at("ph") != "b") continue;
    const json& args = e.at("args");
    const bool sent = e.at("name").get<std::string>().starts_with("to ");
    const int mine = e.at("pid"), peer = args.at("peer"), sequence = args.at("sequence");
    CHECK((mine >= 0 && mine < p && peer >= 0 && peer < p && sequence >= 1 && sequence <= calls &&
           args.at("round") >= 0));
    bytes[{sent ? mine : peer, sent ? peer : mine, sequence}] +=
        (sent ? 1 : -1) * (1 + args.at("bytes").get<std::int64_t>());
  }
  CHECK(bytes.size() >= static_cast<std::size_t>(calls == 1 ? p : 3 * p));
  for (const auto& [who, left] : bytes) CHECK(left == 0);
}

int count(const json& events, const char* ph, int pid, const std::string& name) {
  const auto is_one = [&](const json& e) { return e.at("ph") == ph && e.at("pid") == pid && e.at("name") == name; };
  return static_cast<int>(std::count_if(events.begin(), events.end(), is_one));
}

}  // namespace

TEST_CASE("the merged trace of all ranks is complete and ordered") {
  for (const int p : {2, 3, 4}) {
    for (const json& all : {trace_of<over_slots_wire>(p), trace_of<over_messages_wire>(p)}) {
      const json& events = all.at("traceEvents");
      expect_order(events);
      expect_all(events, p);
      for (int r = 0; r < p; ++r)
        for (const char* call : {"allreduce #1", "allreduce #2", "allreduce #3", "broadcast #4", "barrier #5"})
          CHECK(count(events, "X", r, call) == 1);
    }
  }
}

TEST_CASE("a pair operation has a slice of its own, even if a collective has the same number") {
  const auto pairs_of = [](auto& comm) {
    kolo::watch(comm);
    std::vector<int> x(3000);
    const int rank = comm.rank();
    if (rank == 0) kolo::send(comm, x, 1), kolo::send(comm, x, 2);
    else kolo::receive(comm, x, 0);
    any_call(comm, kolo::ring::allreduce{}, 3000);
    const auto events = json::parse(kolo::chrome_trace(comm.transport().log(), rank)).at("traceEvents");
    return std::to_string(count(events, "X", rank, rank == 0 ? "send #1" : "receive #1")) + ' ' +
           std::to_string(count(events, "X", rank, "allreduce #1")) + ' ' +
           std::to_string(count(events, "X", rank, "round 0"));
  };
  const std::vector<std::string> slices{"2 1 3", "1 1 2", "1 1 2"};
  CHECK(on_traced<over_slots_wire>(3, pairs_of) == slices);
  CHECK(on_traced<over_messages_wire>(3, pairs_of) == slices);
}

TEST_CASE("messages have the right rounds and bytes") {
  for (const int p : {3, 4}) {
    const auto said = on_traced<over_messages_wire>(p, [](auto& comm) -> std::string {
      kolo::watch(comm);
      const kolo::ring::allreduce ring;
      any_call(comm, ring, 240);
      const auto& log = comm.transport().log();
      std::map<int, int> in_round;
      std::uint64_t sent = 0;
      for (std::size_t i = 0; i < log.size(); ++i) {
        if (log[i].end < log[i].begin) return "an event ends before it begins";
        if (log[i].kind != kolo::trace_event::what::waited) ++in_round[log[i].round];
        if (log[i].kind == kolo::trace_event::what::sent) sent += log[i].bytes;
      }
      const bool are_two = std::all_of(in_round.begin(), in_round.end(), [](auto round) { return round.second == 2; });
      if (!are_two || static_cast<int>(in_round.size()) != ring.rounds(comm.size()))
        return "not one message each way in each round";
      return sent == kolo::cost_of(ring, comm.rank(), comm.size(), 240).sent ? ""
                                                                             : "not as many bytes as cost_of predicts";
    });
    CHECK(said == all_say(p, ""));
  }
}

TEST_CASE("the log keeps the newest events, and the trace says that older ones are missing") {
  const auto said = on_traced<over_slots_wire>(3, [](auto& comm) -> std::string {
    auto& log = comm.transport().log();
    log = kolo::trace_log{10};
    for (int k = 0; k < 20; ++k) any_call(comm, kolo::ring::allreduce{}, 3000);
    if (log.size() != 10 || log.forgotten() < 20 * 8 - 10 || log[9].sequence != 20)
      return "the log is not the last ten events";
    const auto events = json::parse(kolo::chrome_trace(log, comm.rank())).at("traceEvents");
    const bool is_said =
        std::any_of(events.begin(), events.end(), [](const json& e) { return e.at("name") == "process_labels"; });
    log.forget();
    return is_said && log.size() == 0 ? "" : "no label says that events are missing";
  });
  CHECK(said == all_say(3, ""));
  for (const char* other : {"[]", "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n]}\n"})
    CHECK_THROWS_AS(kolo::merge_chrome_traces({other}), kolo::error);
}

TEST_CASE("an event in flight when the log is cleared does not end a later one") {
  const auto said = on_traced<over_messages_wire>(2, [](auto& comm) -> std::string {
    auto& wire = comm.transport();
    auto& log = wire.log();
    const int other = 1 - comm.rank();
    std::byte in[2], out[2] = {};
    auto first = wire.receive(other, &in[0], 1, 1);
    log.forget();
    auto second = wire.receive(other, &in[1], 1, 2);
    if (log.size() != 1 || log.newest() != &log[0]) return "the log is not the later event";
    auto sent = wire.send(other, &out[0], 1, 1);
    while (!wire.done(first)) {
    }
    const bool is_open = log[0].end == kolo::no_time;
    auto also = wire.send(other, &out[1], 1, 2);
    while (!wire.done(second) || !wire.done(sent) || !wire.done(also)) {
    }
    return is_open && log[0].end != kolo::no_time ? "" : "an event does not end with its own message";
  });
  CHECK(said == all_say(2, ""));
}

TEST_CASE("the transport laws hold under the trace") {
  const auto under = [](auto law) { return [law](auto& comm) { return law(comm.transport()); }; };
  CHECK(on_traced<over_slots_wire>(3, under(laws::pieces_arrive_in_order)) == all_say(3, ""));
  CHECK(on_traced<over_slots_wire>(3, under(laws::exchanges_need_no_release)) == all_say(3, ""));
  CHECK(on_traced<over_slots_wire>(3, under(laws::boards_are_read_by_all)) == all_say(3, ""));
  CHECK(on_traced<over_slots_wire>(3, under(laws::replies_come_back)) == all_say(3, ""));
  CHECK(on_traced<over_slots_wire>(3, under(laws::spare_buffers_pass_to_who_reads_them)) == all_say(3, ""));
  CHECK(on_traced<over_messages_wire>(3, under(laws::messages_arrive_in_order)) == all_say(3, ""));
  CHECK(on_traced<over_messages_wire>(3, under(laws::deadline_passes)) == all_say(3, ""));
}

namespace {

/// The time at which the third host's clock began, and by how much those of the other two hosts differ from it, in seconds.
struct clocks {
  double begin, apart;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
} of_hosts{};

/// The transport of ranks on hosts of two ranks whose clocks differ.
template <class Wire>
struct skewed : Wire {
  using Wire::Wire;
  explicit skewed(Wire&& w) : Wire{std::move(w)} {}
  double now() const {
    return of_hosts.begin + of_hosts.apart * off() +
           std::chrono::duration<double>(std::chrono::steady_clock::now() - of_hosts.start).count();
  }
  int off() const { return (Wire::place().node_rank + 2) % 3 - 1; }
};

template <class Wire, class F>
std::vector<std::string> on_hosts(F f) {
  return on_threads(
      5,
      [&](auto& whole) {
        kolo::communicator<kolo::traced<skewed<Wire>>> comm{skewed<Wire>{Wire{std::move(whole.transport())}}};
        return std::string{f(comm)};
      },
      {.timeout = 20s, .ranks_per_node = 2});
}

template <class Wire>
void expect_one_clock(clocks all_hosts) {
  of_hosts = all_hosts;
  // A double near `most` has a resolution of `step`; each of three readings may be off by half of it.
  const double most = std::abs(all_hosts.begin) + all_hosts.apart + 1800;
  const auto step = static_cast<std::int64_t>(2e9 * (std::nextafter(most, 1e300) - most)) + 1;
  const auto offsets = on_hosts<Wire>([&](auto& comm) -> std::string {
    kolo::barrier(comm);
    const auto found = kolo::clock_offset_of(comm.transport().untraced());
    const auto hosts = static_cast<std::int64_t>(1e9 * all_hosts.apart);
    const auto apart = kolo::detail::observe::time_between(hosts * comm.transport().off(),
                                                           kolo::detail::observe::time_between(found.ns, -hosts));
    if (std::abs(apart) > found.error + step)
      return "off by " + std::to_string(apart) + " ns, and not within " + std::to_string(found.error);
    return (comm.node_rank() == 0) == (found.error == 0) && found.error < 10'000'000'000
               ? ""
               : "the error is " + std::to_string(found.error) + " ns";
  });
  CHECK(offsets == all_say(5, ""));
  const auto said = on_hosts<Wire>([](auto& comm) {
    kolo::watch(comm);
    any_call(comm, kolo::ring::allreduce{}, 100);
    return kolo::merged_chrome_trace(comm);
  });
  CHECK(said == all_say(5, said[0]));
  const json all = json::parse(said[0]);
  expect_all(all.at("traceEvents"), 5, 1);
  int labelled = 0;
  double first = 1e300, last = -1e300;  // microseconds
  for (const json& e : all.at("traceEvents")) {
    labelled += e.at("name") == "process_labels";
    if (e.at("ph") == "M") continue;
    const double at = e.at("ts");
    first = std::min(first, at), last = std::max(last, at + e.value("dur", 0.0));
  }
  CHECK(labelled == 3);
  CHECK(last - first < 1800e6);  // by their own clocks they are hours or centuries apart
}

}  // namespace

TEST_CASE("the clocks of several hosts are aligned, within the reported error") {
  const double hour = 3600, age = 4.6e9;  // about 2^62 ns
  for (const clocks& c : {clocks{-hour, hour}, clocks{0, hour}, clocks{age, hour}, clocks{0, age}, clocks{hour, 0}}) {
    INFO("the clocks begin at " << c.begin << " s, and are " << c.apart << " s apart");
    expect_one_clock<kolo::threads::transport>(c);
    expect_one_clock<message_transport>(c);
  }
}

TEST_CASE("ranks in virtual time are traced in virtual time") {
  std::string said;
  const auto took = kolo::virtual_time::run(4, {.latency = 1.0, .overhead = 0.25}, [&](auto& whole) {
    kolo::communicator<kolo::traced<kolo::virtual_time::transport>> comm{std::move(whole.transport())};
    kolo::watch(comm);
    any_call(comm, kolo::ring::allreduce{}, 4);
    const auto text = kolo::merged_chrome_trace(comm);
    if (comm.rank() == 0) said = text;
  });
  double last = 0;
  int rounds = 0;
  const json all = json::parse(said);
  for (const json& e : all.at("traceEvents")) {
    if (e.at("ph") == "X") last = std::max(last, e.at("ts").get<double>() + e.at("dur").get<double>());
    rounds += e.at("ph") == "X" && e.at("name").get<std::string>().starts_with("round ");
  }
  CHECK(rounds == 4 * 6);
  CHECK(last > 6 * 1.0e6);
  CHECK(last <= took.seconds * 1e6);
}
