// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// rendezvous: all ranks get one memory, or all of them the same error.
#include <kolo/launch/rendezvous.hpp>
#include <kolo/version.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include <sys/resource.h>
#include <sys/syscall.h>

#include "processes/children.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace std::chrono_literals;
using namespace kolo::detail::launch;
using kolo::errc, kolo::detail::os::process_id, kolo::detail::shm::shared_mapping;
using kolo::detail::os::descriptor;
using members = std::vector<process_id>;

/// A job name that no other test, and no other run of this one, uses.
std::string fresh_job() {
  static int count = 0;
  return "kolo/test/" + std::to_string(::getpid()) + '/' + std::to_string(count++);
}

/// A rank's result: "ok " and the sum of all ranks' contributions in the shared memory, or "code(peer): message".
std::string meet(const rendezvous_options& i, std::uint64_t (*prepare)(shared_mapping&, const members&) = nullptr) {
  try {
    const rendezvous_result m = rendezvous(i, [&](shared_mapping& memory, const members& all) {
      if (prepare) return prepare(memory, all);
      const bool known =
          std::all_of(all.begin(), all.end(), [](process_id p) { return p.pid > 0 && kolo::detail::os::is_alive(p); });
      return known && all.size() == static_cast<std::size_t>(i.size) ? memory.reserve(64) : 0;
    });
    const auto data = m.memory.map(m.region, 64);
    auto* const counters = reinterpret_cast<std::atomic<int>*>(data.get());
    counters[1] += 1 << i.rank;
    for (++counters[0]; counters[0] < i.size;) ::sched_yield();
    return "ok " + std::to_string(counters[1]);
  } catch (const kolo::error& e) {
    return std::string{name(e.code())} + '(' + std::to_string(e.peer()) + "): " + e.what();
  }
}

rendezvous_options options_for(const std::string& job, int rank, int size, std::chrono::nanoseconds timeout = 20s) {
  return {.rank = rank, .size = size, .name = job, .timeout = timeout, .terms = {{"slot_bytes", 65536}, {"slots", 4}}};
}

}  // namespace

TEST_CASE("all ranks share one memory, in any order of arrival") {
  const int size = GENERATE(1, 2, 3, 4, 8);
  const auto job = fresh_job();
  const auto before = testing::files_in("/dev/shm");
  for (const auto& said : testing::in_children(size, [&](int r) { return meet(options_for(job, r, size)); }))
    CHECK(said == "ok " + std::to_string((1 << size) - 1));
  CHECK(testing::nothing_stays_in_dev_shm(before));
}

TEST_CASE("rank 0 may arrive last") {
  const auto job = fresh_job();
  testing::wire started;
  std::vector<testing::child> others;
  for (int r = 1; r < 4; ++r)
    others.emplace_back([&, r] {
      started.say("!");
      return meet(options_for(job, r, 4));
    });
  started.hear(3);
  testing::child first{[&] { return meet(options_for(job, 0, 4)); }};
  CHECK(first.result() == "ok 15");
  for (auto& o : others) CHECK(o.result() == "ok 15");
}

TEST_CASE("two jobs may meet at once, and a job's name may be used again") {
  const std::string jobs[] = {fresh_job(), fresh_job()};
  const auto all = testing::in_children(6, [&](int i) {
    std::string said;
    for (int again = 0; again < 5; ++again)
      said += meet(options_for(jobs[i % 2] + '/' + std::to_string(again), i / 2, 3)) + ' ';
    return said;
  });
  for (const auto& said : all) CHECK(said == "ok 7 ok 7 ok 7 ok 7 ok 7 ");
  // The same name again, in new processes.
  for (int again = 0; again < 3; ++again)
    for (const auto& said : testing::in_children(2, [&](int r) { return meet(options_for(jobs[0], r, 2)); }))
      CHECK(said == "ok 3");
}

TEST_CASE("a missing rank is named by all ranks") {
  const auto words_of_all = [job = fresh_job()](std::chrono::nanoseconds timeout) {
    return testing::in_children(4, [&](int r) {
      if (r == 1) return std::string{};
      return meet(options_for(job, r, 4, r == 2 ? timeout : 10 * timeout));  // the shortest ends it for all
    });
  };
  const auto names_rank_1 = [](const std::string& said, int r) {
    return said.starts_with("timeout(1): kolo: rendezvous, rank " + std::to_string(r) +
                            ": rank 1 did not come within ");
  };
  auto all = words_of_all(200ms);
  if (!names_rank_1(all[2], 2)) all = words_of_all(5s);  // another process has not run for so long
  for (const int r : {0, 2, 3}) {
    const auto& said = all[static_cast<std::size_t>(r)];
    INFO(said);
    CHECK(names_rank_1(said, r));
  }
  const std::string many = testing::child{[] { return meet(options_for(fresh_job(), 0, 30, 1ms)); }}.result();
  CHECK(many.find("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 21 more did not come within") != std::string::npos);
}

TEST_CASE("if rank 0 is missing, the error says what to do") {
  const std::string said = testing::child{[] { return meet(options_for(fresh_job(), 1, 2, 50ms)); }}.result();
  CHECK(said.starts_with(
      "timeout(0): kolo: rendezvous, rank 1: rank 0 was not found within 0.050 s: it was not started, or"));
  CHECK(said.ends_with("KOLO_JOB"));
}

TEST_CASE("a rank with other options is named on all ranks") {
  const auto job = fresh_job();
  const auto odd = [&](int size, auto change) {
    const auto all = testing::in_children(3, [&](int r) {
      auto i = options_for(job, r, size);
      if (r == 2) change(i);
      return meet(i);
    });
    for (std::size_t r = 1; r < 3; ++r) {  // equal, except for the reporting rank
      auto expected = all[0];
      auto i = options_for(job, static_cast<int>(r), size);
      if (r == 2) change(i);
      expected.replace(expected.find("rank 0:"), 7, "rank " + std::to_string(i.rank) + ':');
      CHECK(all[r] == expected);
    }
    return all[0];
  };
  CHECK(odd(3, [](rendezvous_options& i) { i.terms[0].value = 4096; }) ==
        "mismatch(2): kolo: rendezvous, rank 0: rank 2 was given slot_bytes 4096, rank 0 65536");
  CHECK(odd(3, [](rendezvous_options& i) { i.size = 5; }) ==
        "mismatch(2): kolo: rendezvous, rank 0: rank 2 was started as one of 5, rank 0 as one of 3");
  CHECK(odd(3, [](rendezvous_options& i) {
          i.rank = 7;
        }).starts_with("mismatch(7): kolo: rendezvous, rank 0: a rank 7 came"));
}

TEST_CASE("two processes with the same rank are refused, also for rank 0") {
  const int twice = GENERATE(0, 1);
  const auto job = fresh_job();
  const auto all = testing::in_children(3, [&](int i) { return meet(options_for(job, i == 2 ? twice : i, 4)); });
  for (const auto& said : all) {
    INFO(said);
    CHECK(said.starts_with("mismatch(" + std::to_string(twice) + "): kolo: rendezvous, rank "));
    CHECK(said.find("rank " + std::to_string(twice) + " came twice, as process ") != std::string::npos);
  }
}

TEST_CASE("another version of the library is named; foreign connections are ignored") {
  const auto job = fresh_job();
  testing::child host{[&] { return meet(options_for(job, 0, 2)); }};
  descriptor line;
  const auto say = [&](const auto& words) {
    while (!(line = connect_to(job))) ::sched_yield();
    return ::send(line.get(), &words, sizeof words, MSG_NOSIGNAL) == sizeof words;
  };
  REQUIRE(say("GET / HTTP/1.1"));
  REQUIRE(say(char{0}));
  hello_message hello = greet(options_for(job, 1, 2), 20s);
  const auto version = "kolo " + std::to_string(kolo::version_major) + "." + std::to_string(kolo::version_minor) + "." +
                       std::to_string(kolo::version_patch);
  const auto ours = version + " (protocol 1)";
  SECTION("version") {
    hello.version = {9, 8, 7};
    REQUIRE(say(hello));
    CHECK(host.result() == "mismatch(1): kolo: rendezvous, rank 0: rank 1 was built with kolo 9.8.7 (protocol 1), " +
                               ("rank 0 with " + ours));
    descriptor file;
    CHECK(std::string_view{receive_reply(line.get(), file)->text}.starts_with("rank 1 was built with kolo 9.8.7"));
    CHECK_FALSE(file);
  }
  SECTION("protocol, with a longer hello") {
    struct longer : hello_message {
      std::int64_t more[4] = {};
    } other;
    other.rank = 1;
    other.protocol = 2;
    REQUIRE(say(other));
    CHECK(host.result().ends_with("rank 1 was built with " + version + " (protocol 2), rank 0 with " + ours));
  }
  SECTION("another pid namespace") {
    hello.pid = ::getpid() + 1;
    REQUIRE(say(hello));
    CHECK(host.result().ends_with(
        "rank 1 lives in another pid namespace than rank 0, where its death could not be noticed"));
  }
}

TEST_CASE("a rank that ends during the rendezvous is named at once") {
  const auto job = fresh_job();
  testing::child host{[&] { return meet(options_for(job, 0, 4)); }},
      other{[&] { return meet(options_for(job, 1, 4)); }};
  {
    descriptor line;  // rank 2 sends its hello and ends
    while (!(line = connect_to(job))) ::sched_yield();
    const hello_message hello = greet(options_for(job, 2, 4), 20s);
    REQUIRE(::send(line.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
  }
  CHECK(host.result() == "peer died(2): kolo: rendezvous, rank 0: rank 2 ended before all had come");
  CHECK(other.result() == "peer died(2): kolo: rendezvous, rank 1: rank 2 ended before all had come");
}

TEST_CASE("if rank 0 dies or cannot reserve the memory, the others get the error at once") {
  const auto job = fresh_job();
  SECTION("dies") {
    testing::wire greeted, never;
    testing::child host{[&] {  // a rank 0 that listens, and sends nothing
      const descriptor listener = listen_at(job);
      pollfd watched{listener.get(), POLLIN, 0};
      ::poll(&watched, 1, -1);
      greeted.say("!");
      return never.hear();
    }};
    testing::child other{[&] { return meet(options_for(job, 1, 3)); }};
    greeted.hear();
    host.kill();
    CHECK(other.result() == "peer died(0): kolo: rendezvous, rank 1: rank 0 died before all had come");
  }
  SECTION("throws") {
    const auto all = testing::in_children(3, [&](int r) {
      return meet(options_for(job, r, 3),
                  [](shared_mapping& memory, const members&) { return memory.reserve(std::size_t{1} << 60); });
    });
    for (const auto& said : all)
      CHECK(said.find(": 1152921504606846976 bytes of memory were asked for, more than can be addressed") !=
            std::string::npos);
    CHECK(all[2].starts_with("out of resources(0): kolo: rendezvous, rank 2: "));
  }
}

TEST_CASE("a rank without a free descriptor for the memory gets an error") {
  if (testing::is_sanitized) return;  // exceptions need descriptors under a sanitizer
  const auto job = fresh_job();
  testing::child host{[&] { return meet(options_for(job, 0, 2)); }};
  testing::child other{[&] {
    while (!connect_to(job)) ::sched_yield();
    const int next = ::dup(0);
    ::close(next);
    const rlimit one{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};  // for the socket
    ::setrlimit(RLIMIT_NOFILE, &one);
    return meet(options_for(job, 1, 2));
  }};
  CHECK(other.result() == "out of resources(-1): kolo: receiving the shared segment: Too many open files");
}

TEST_CASE("rank 0 needs one descriptor for each rank that connects; with fewer, all ranks get the error at once") {
  if (testing::is_sanitized) return;
  const auto job = fresh_job();
  const auto leave_two = [] {
    const descriptor one{::dup(0)}, other{::dup(0)};
    const auto most = static_cast<rlim_t>(other.get()) + 1;
    const rlimit few{most, most};
    ::setrlimit(RLIMIT_NOFILE, &few);
  };
  SECTION("as many as connect") {
    testing::child host{[&]() -> std::string {
      leave_two();
      const auto i = options_for(job, 0, 2);
      rendezvous_server server{i, listen_at(job), rendezvous_clock::now()};
      server.collect(progress_only);
      return server.fault() ? "too few" : "enough";
    }};
    descriptor line;
    while (!(line = connect_to(job))) ::sched_yield();
    const hello_message hello = greet(options_for(job, 1, 2), 20s);
    REQUIRE(::send(line.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
    CHECK(host.result() == "enough");
  }
  SECTION("fewer") {
    int done[2];
    REQUIRE(::pipe(done) == 0);
    const auto all = testing::in_children(3, [&](int r) {
      if (r == 0) leave_two();
      const auto said = meet(options_for(job, r, 3));
      char byte{};
      for (int i = 0; r == 0 && i < 2; ++i)
        CHECK(::read(done[0], &byte, 1) == 1);  // rank 0 stays, since its end would be another error
      if (r != 0) CHECK(::write(done[1], &byte, 1) == 1);
      return said;
    });
    for (const int end : done) ::close(end);
    for (std::size_t r = 0; r < 3; ++r)
      CHECK(all[r] == "out of resources(0): kolo: rendezvous, rank " + std::to_string(r) +
                          ": receiving the other ranks, a descriptor each (see `ulimit -n`): Too many open files");
  }
}

TEST_CASE("rank 0 fails if the system cannot pass the descriptor of the memory") {
  const auto end_within = [job = fresh_job()](std::chrono::nanoseconds timeout) {
    testing::child other{[&] { return meet(options_for(job, 1, 2, timeout)); }};
    testing::child first{[&]() -> std::string {
      if (!testing::forbid(SYS_sendmsg, ETOOMANYREFS)) return "cannot be tried";
      try {
        rendezvous(options_for(job, 0, 2, timeout),
                   [](shared_mapping& memory, const members&) { return memory.reserve(64); });
        return "goes on";
      } catch (const kolo::error& e) {
        return e.code() == errc::out_of_resources ? "" : e.what();
      }
    }};
    return first.result();
  };
  auto end = end_within(300ms);
  if (end.find("did not come") != end.npos) end = end_within(5s);  // the other process has not run for so long
  CHECK(end == "");
}

TEST_CASE("clients that connect and leave neither keep the ranks out nor exhaust rank 0's descriptors") {
  const auto job = fresh_job();
  const auto met = [](auto&& rendezvous_of_two) -> std::string {
    try {
      rendezvous_of_two([](shared_mapping& memory, const members&) { return memory.reserve(64); });
      return "met";
    } catch (const kolo::error& e) {
      return e.what();
    }
  };
  testing::wire ready;
  testing::child host{[&]() -> std::string {
    descriptor listener = listen_at(job);
    int knocks = 0;
    while (knocks < 300 && connect_to(job)) ++knocks;
    const rlimit few{100, 100};  // fewer than the pending connections
    if (knocks < 100 || ::setrlimit(RLIMIT_NOFILE, &few) != 0) return "cannot be tried";
    ready.say("!");
    const auto i = options_for(job, 0, 2);
    return met([&](auto prepare) {
      rendezvous_server{i, std::move(listener), rendezvous_clock::now()}.receive(prepare);
    });
  }};
  ready.hear();
  CHECK(met([&](auto prepare) { rendezvous(options_for(job, 1, 2), prepare); }) == "met");
  CHECK(host.result() == "met");
}

TEST_CASE("if another process has bound the socket's name, the ranks meet at another one") {
  const auto job = fresh_job();
  const descriptor silent = new_socket();  // bound but not listening: its owner cannot be determined
  const socket_address here{job};
  REQUIRE(::bind(silent.get(), here.get(), here.length) == 0);
  for (const auto& said : testing::in_children(3, [&](int r) { return meet(options_for(job, r, 3)); }))
    CHECK(said == "ok 7");
}

TEST_CASE("further_places finds a job's further socket names, and no others") {
  for (const std::string name : {"kolo/job a/0", "kolo/job two\nlines/0"}) {
    const std::string place = further_place(name), other = further_place(name);
    CHECK(place != other);
    const std::string line = "00: 00000002 00000000 00010000 0005 01 12345 ";
    const std::string sockets = "Num RefCount Protocol Flags Type St Inode Path\n" + line + '\n' + line + '@' + name +
                                '\n' + line + '@' + place + '\n' + line + '@' + place + "0\n" + line + '@' +
                                further_place("kolo/job a/1") + '\n' + line + '@' + name + "#2026-11-30T16:53\n" +
                                line + "@#12" + name + '\n' + line + '@' + other + '\n' + line + '@' +
                                place.substr(0, 18);
    CHECK(further_places(name, sockets) == std::vector{place, other});
    CHECK(further_places(name, "").empty());
    CHECK(further_places(name, name + '\n').empty());
  }
}

TEST_CASE("a rank waits for its own rank 0, whatever other meetings there are") {
  const auto job = fresh_job();
  const auto more = job + "#2026-11-30T16:53";  // as many characters as further_place adds
  const testing::child other{[&] { return meet(options_for(more, 0, 2)); }};
  while (!connect_to(more)) ::sched_yield();
  CHECK(meet(options_for(job, 1, 2, 300ms)).starts_with("timeout(0): kolo: rendezvous, rank 1: rank 0 was not found"));
}

TEST_CASE("a child forked by a rank 0 that has died does not keep the next job from the name") {
  const auto job = fresh_job();
  testing::wire holds, over;
  testing::child died{[&] {
    const auto listener = listen_at(job);
    if (::fork() == 0) {
      holds.say("!");
      over.hear();
      ::_exit(0);
    }
    return "";
  }};
  holds.hear();
  died.await_end();
  for (const auto& said : testing::in_children(3, [&](int r) { return meet(options_for(job, r, 3)); }))
    CHECK(said == "ok 7");
  over.say("!");
  CHECK(died.result() == "");
}

TEST_CASE("a name that is too long is refused") {
  CHECK_THROWS_AS(
      rendezvous(options_for(std::string(200, 'x'), 0, 2), [](shared_mapping&, const members&) { return 0u; }),
      kolo::error);
}
