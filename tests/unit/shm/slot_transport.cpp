// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slots of threads and processes beyond the laws: sizes, lack of memory, and the first failure, also if its reporter is stopped.
#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>
#include <kolo/observe/counted.hpp>
#include <kolo/shm/node_group.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <span>
#include <thread>
#include <vector>

#include "laws/round_trip_laws.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/ending_memory.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

/// Lies in a page whose first access stops the process.
kolo::failure* to_say;

kolo::detail::os::process_id dead_process() {
  testing::child c{[] { return std::string{}; }};
  const kolo::detail::os::process_id id{c.pid(), 1};  // a later process with that pid has another start time
  c.result();
  return id;
}

[[noreturn]] void refuse() { throw kolo::error{kolo::errc::out_of_resources, "out of memory"}; }
/// Throws out_of_resources at use `uses_left` in the thread that has set it.
using running_out = ending_memory<kolo::detail::shm::private_mapping, refuse>;

/// The outcomes of a call on three ranks, of which `rank` runs out of memory at its use `use`. No rank waits for its deadline, and all reserved memory is given
/// back.
template <class F>
std::vector<std::string> ends_without_memory(int rank, int use, F call) {
  using comm_type = kolo::communicator<kolo::detail::shm::slot_transport<running_out>>;
  const kolo::detail::shm::region_shape shape{3, {.timeout = 60s}};
  running_out memory;
  const auto region = comm_type::transport_type::initialise(memory, shape);
  auto said = on_threads(3, [&](auto& outer) {
    comm_type comm{memory, region, shape, outer.rank()};
    kolo::barrier(outer);
    if (comm.rank() == rank) running_out::uses_left = use;
    const auto end = end_of([&] { call(comm); });
    running_out::uses_left = -1;
    kolo::barrier(outer);  // no rank learns of the failure from a destroyed communicator
    return end;
  });
  INFO("rank " << rank << ", use " << use << ": " << said[0] << ", " << said[1] << ", " << said[2]);
  CHECK(memory.regions_kept() == 0);
  return said;
}

kolo::failure failure_of(int rank) {
  kolo::failure f;
  f.code = kolo::errc::peer_died;
  f.peer = rank;
  return f;
}

}  // namespace

TEST_CASE("regions: at most 5 MB for 4 ranks, 70 MB up to 63, 64 MB for 64, as in the README; no slots for 1") {
  for (const std::size_t kib : {16u, 256u, 512u, 1024u, 2048u, 16384u}) {
    kolo::detail::shm::region_shape shape{1, {}};
    shape.cache_bytes = kib * 1024;
    for (int p = 1; p <= 128; ++p) {
      INFO(p << " ranks, caches of " << kib << " KiB");
      shape = shape.with_ranks(p);
      const auto peers = static_cast<std::size_t>(std::max(1, p - 1));
      CHECK(shape.slot_bytes >= 4096);
      CHECK(shape.slot_bytes <= 65536);
      CHECK((shape.slot_bytes == 4096 || peers * shape.slot_bytes <= shape.cache_bytes));
      CHECK((p > 64 || shape.bytes() <= (p < 64 ? 70'000'000u : 64'000'000u)));
      CHECK((p > 4 || shape.bytes() <= 5'000'000));
      CHECK((p > 1 || shape.bytes() < shape.slot_bytes));
    }
  }
  kolo::detail::shm::region_shape usual{4, {}};
  usual.cache_bytes = 1 << 20;
  CHECK((usual.with_ranks(4).bytes() + 50'000) / 100'000 == 50);
  usual.cores = 2;
  const std::pair<int, std::size_t> round_trips[] = {{1, 65536}, {2, 65536},  {4, 65536},
                                                     {8, 37449}, {16, 32768}, {64, 4096}};
  for (const auto& [p, bytes] : round_trips) CHECK(usual.with_ranks(p).round_trip_bytes() == bytes);
  for (const auto& [p, slots] : {std::pair{1, 4u}, {2, 4u}, {4, 4u}, {6, 1u}, {8, 1u}, {16, 1u}, {64, 1u}})
    CHECK(usual.with_ranks(p).round_trip_slots() == slots);
  usual.cores = 8;
  CHECK(usual.with_ranks(8).round_trip_slots() == 4);
  CHECK(usual.with_ranks(8).round_trip_bytes() == 65536);
  CHECK(usual.with_ranks(8).slot_bytes == 65536);
  CHECK(usual.with_ranks(16).slot_bytes == 65536);
  CHECK(usual.with_ranks(17).slot_bytes == 65536);
  CHECK(usual.with_ranks(32).slot_bytes == 19 * 1024);
  CHECK(usual.with_ranks(64).slot_bytes == 4096);
  for (const int p : {3, 6, 8, 32}) {  // as `grow` makes them of two ranks, which have rings
    const auto grown = usual.with_ranks(2).with_ranks(p), fresh = usual.with_ranks(p);
    CHECK(grown.bytes() == fresh.bytes());
    CHECK(grown.slot_bytes == fresh.slot_bytes);
    CHECK(grown.slots == fresh.slots);
  }
  for (const int p : {2, 4, 8, 32, 60}) {
    INFO(p << " ranks");
    CHECK(usual.with_ranks(p).board_lines == 64);
    CHECK(usual.with_ranks(p).board_buffers == 4);
  }
  for (const auto& [p, lines] : {std::pair{2, 256u}, {3, 256u}, {4, 128u}, {8, 256u}, {16, 64u}, {32, 32u}, {60, 32u}})
    CHECK(usual.with_ranks(p).lines == lines);
  for (int p = 1; p <= 128; ++p) CHECK(usual.with_ranks(p).lines >= usual.with_ranks(p).slots);
  for (const int p : {61, 64, 65, 128}) CHECK(usual.with_ranks(p).lines == 3);
  struct megabytes {
    int ranks;
    double usual, said;
  };
  for (const auto& [p, by_default, with_slots] :
       {megabytes{2, kolo::detail::core::one_way_copy::is_timed ? 4.9 : 0.9, 0.9},
        {4, 5.0, 5.0},
        {8, 26.2, 26.2},
        {16, 69.9, 101},
        {32, 67.5, 406},
        {64, 63.7, 1632},
        {128, 253, 6485}}) {
    INFO(p << " ranks");
    const auto is = [](std::size_t bytes, double figure) {
      const double step = figure < 100 ? 0.1 : 1;
      return std::abs(static_cast<double>(bytes) / 1e6 - figure) <= step / 2;
    };
    CHECK(is(usual.with_ranks(p).bytes(), by_default));
    CHECK(is(kolo::detail::shm::region_shape{p, {.slot_bytes = 65536}}.bytes(), with_slots));
  }
  CHECK(usual.subset(2).slot_bytes == 65536);
  for (const int p : {2, 64}) {
    const kolo::detail::shm::region_shape said{p, {.slot_bytes = 65536}};
    CHECK(said.subset(p).slots == 4);
    CHECK(said.subset(p).slot_bytes == 65536);
  }
}

TEST_CASE("round trips of ranks that take turns use one buffer, unless a reply is still unread") {
  CHECK(laws::round_trips_share_a_buffer() == "");
}

TEST_CASE("pieces in a ring stay as they are until they are read") { CHECK(laws::rings_keep_unread_pieces() == ""); }

TEST_CASE("a piece lies in the slot whose lines have been fetched, if it is not longer than they are") {
  CHECK(laws::pieces_lie_in_fetched_slots() == "");
}

namespace {
struct pair_with_rings {
  kolo::detail::shm::region_shape shape = [] {
    kolo::detail::shm::region_shape s{2, {.slot_bytes = 8192}};
    s.ring_step = 256;
    return s;
  }();
  kolo::detail::shm::private_mapping memory{};
  std::uint64_t region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport a{memory, region, shape, 0}, b{memory, region, shape, 1};
};
}  // namespace

TEST_CASE("a piece in a spare buffer lies in no ring, although one was offered for it") {
  pair_with_rings both;
  auto &a = both.a, &b = both.b;
  for (int i = 0; i < 4; ++i) {  // the first one lies in a slot
    const bool is_spare = i == 2;
    REQUIRE(a.reserve(1, 8192) != nullptr);
    a.commit(1, 8192, 0, {{}, {}, is_spare});
    CHECK(b.peek(0).in_ring == (i != 0 && !is_spare));
    b.release(0);
  }
}

TEST_CASE("a rank fetches its next slot once it has sent everything, unless it is two pieces ahead of the reader") {
  pair_with_rings both;
  auto &a = both.a, &b = both.b;
  const auto send = [&](std::size_t bytes) {
    REQUIRE(a.reserve(1, bytes) != nullptr);
    a.commit(1, bytes, 0);
    a.flush();
  };
  const auto lies_in_ring = [&] {
    const bool is_in_ring = b.peek(0).in_ring;
    b.release(0);
    return is_in_ring;
  };
  send(8192), send(8192), send(8192);
  CHECK_FALSE(lies_in_ring());
  const bool fetches_nothing = a.first_polls() == 0;  // ranks that share a core
  CHECK(lies_in_ring() == fetches_nothing);
  CHECK(lies_in_ring());
  a.reserve(1, 8192), a.commit(1, 8192, 0);
  CHECK(lies_in_ring());
  send(8), send(8192);  // after the short one as much was fetched as the long one before it took
  CHECK_FALSE(lies_in_ring());
  CHECK(lies_in_ring() == fetches_nothing);
}

#if defined(__SSE2__)
TEST_CASE("the time that a reader reports contains no wait for another peer, and all of the reading after that") {
  using kolo::detail::core::one_way_copy;
  constexpr auto bytes = one_way_copy::least_timed;
  const kolo::detail::shm::region_shape shape{4, {.slot_bytes = bytes}};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport reader{memory, region, shape, 0}, a{memory, region, shape, 1}, b{memory, region, shape, 2},
      c{memory, region, shape, 3};
  constexpr std::uint64_t ticks = 1 << 20;
  const auto spend = [] {
    for (const auto begin = __builtin_ia32_rdtsc(); __builtin_ia32_rdtsc() - begin < ticks;) {
    }
  };
  const auto send = [](auto& writer) {
    kolo::indirect where;
    CHECK(writer.reserve(0, bytes));
    where.stored = writer.one_way(0)(bytes, [](bool) {});
    writer.commit(0, bytes, 7, where);
  };
  const auto time_of = [&](int writer, int way) {
    std::byte* const base = memory.map(region, shape.bytes()).get();
    return kolo::detail::shm::credit_of(base, shape, writer, 0).read_time[way].load();
  };
  for (int i = 0; i < 6; ++i) {  // the thread may be interrupted: the shortest time counts
    send(a), send(b);
    CHECK((reader.claim(1).data && (spend(), reader.claim(2).data)));
    reader.release(1), reader.release(2);
  }
  CHECK(std::min(time_of(1, 0), time_of(1, 2)) < float{ticks} / float{bytes});  // in a slot, or past the caches
  send(c);                                                                      // not timed: the first one
  CHECK(reader.claim(3).data);
  reader.release(3);
  send(c);
  CHECK((reader.claim(3).data && (spend(), reader.peek(3).data)));  // it looks again, as traced does
  reader.release(3);
  CHECK(time_of(3, 0) >= float{ticks} / float{bytes});
}
#endif

TEST_CASE("64 ranks use at most 64 MB after alltoalls of short, medium and long pieces") {
  constexpr int p = 64;
  kolo::detail::shm::shared_mapping memory;
  const kolo::detail::shm::region_shape shape{p, {.timeout = 60s}};
  const auto region = kolo::shm::transport::initialise(memory, shape);
  std::atomic<int> wrong{0};
  long long taken = 0;
  {
    std::vector<std::jthread> ranks;
    for (int r = 0; r < p; ++r)
      ranks.emplace_back([&, r] {
        kolo::shm::communicator comm{memory, region, shape, r};
        for (const std::size_t part : {10u, 500u, 3000u}) {
          std::vector<int> in(p * part), out(p * part);
          for (std::size_t i = 0; i < in.size(); ++i) in[i] = r * 1000 + static_cast<int>(i / part);
          kolo::alltoall(comm, std::span<const int>{in}, std::span{out});
          kolo::alltoall(comm, std::span<const int>{in}, std::span{out}, kolo::pairwise{});
          for (std::size_t i = 0; i < out.size(); ++i) wrong += out[i] != static_cast<int>(i / part) * 1000 + r;
        }
        kolo::barrier(comm);
        struct stat file;
        if (r == 0 && ::fstat(memory.fd(), &file) == 0) taken = static_cast<long long>(file.st_blocks) * 512;
      });
  }
  CHECK(wrong == 0);
  CHECK(taken > 40'000'000);
  CHECK(taken <= 64'000'000);
}

TEST_CASE("slot sizes and rank counts that exceed all memory are refused before offsets are computed") {
  const auto end_of = [](auto f) {
    try {
      f();
    } catch (const kolo::error& e) {
      return std::string{e.code() == kolo::errc::invalid_argument ? "refused: " : "another error: "} + e.what();
    }
    return std::string{"ran"};
  };
  const auto barrier = [](auto& comm) { kolo::barrier(comm); };
  const auto ends = [&](int ranks, std::size_t slot_bytes) {
    return end_of([&] { kolo::threads::run(ranks, barrier, {.slot_bytes = slot_bytes}); });
  };
  for (const std::size_t bytes : {~std::size_t{0}, std::size_t{1} << 62, (std::size_t{1} << 32) + 1})
    CHECK(ends(3, bytes) ==
          "refused: kolo: slot_bytes is " + std::to_string(bytes) + ", and may be 4294967296 at most");
  CHECK(ends(2147483647, 0) == "refused: kolo: 2147483647 ranks cannot share memory, and 16384 can");
  CHECK(end_of([] { kolo::shm::meet(0, 2147483647, "many"); }).starts_with("refused: kolo: 2147483647 ranks"));
  const auto grow = [](auto& comm) { comm.grow("many", {.newcomers = 2147483647}); };
  CHECK(end_of([&] { kolo::threads::run(2, grow); }).starts_with("refused: kolo: 2147483649 ranks"));
  using kolo::detail::shm::region_shape;
  CHECK(region_shape{3, {.ranks_per_node = 2147483647}}.place(2).node_count == 1);
  constexpr std::size_t most = kolo::detail::shm::most_slot_bytes;
  const region_shape largest{kolo::detail::shm::most_ranks, {.slot_bytes = most}};
  CHECK(largest.bytes() / largest.pairs() > (largest.slots + largest.spares) * most);  // no overflow
}

TEST_CASE("symmetric memory that cannot be addressed is an error on every rank") {
  std::atomic<int> refused = 0;
  kolo::threads::run(3, [&](auto& comm) {
    const auto asks_for = [&]<class T>(T, std::size_t n) {
      try {
        kolo::symmetric<T>(comm, n);
      } catch (const kolo::error& e) {
        refused += e.code() == kolo::errc::out_of_resources;
      }
    };
    asks_for(double{}, ~std::size_t{0} / 8 + 2);  // its size in bytes is 8 modulo 2^64
    asks_for(char{}, ~std::size_t{0});
    asks_for(char{}, std::size_t{1} << 62);
    asks_for(char{}, std::size_t{1} << 46);
  });
  CHECK(refused == 12);
  const auto alone = [](auto& comm) { kolo::symmetric<char>(comm, comm.rank() == 1 ? std::size_t{1} << 62 : 8); };
  const auto words = words_of([&] { kolo::threads::run(3, alone, {.timeout = 60s}); });
  CHECK(words.starts_with("kolo: symmetric memory is as long on every rank"));  // and no rank waits
}

TEST_CASE("symmetric memory that is refused because the lengths differ is given back") {
  using comm_type = kolo::communicator<kolo::detail::shm::slot_transport<running_out>>;
  const kolo::detail::shm::region_shape shape{2, {}};
  running_out memory;
  const auto region = comm_type::transport_type::initialise(memory, shape);
  CHECK(on_threads(2, [&](auto& outer) {
          comm_type comm{memory, region, shape, outer.rank()};
          const auto end = end_of([&] { kolo::symmetric<char>(comm, comm.rank() == 1 ? 7 : 8); });
          kolo::barrier(comm);
          return end;
        }) == all_say(2, "invalid argument -1"));
  CHECK_THROWS_AS(memory.map(region + 1, 8), kolo::error);  // the region of the symmetric memory
}

TEST_CASE("split and symmetric: a rank without memory is named on all ranks, which do not wait for the deadline") {
  const auto split = [](auto& comm) { comm.split(comm.rank() == 2, 0); };
  const auto symmetric = [](auto& comm) { kolo::symmetric<int>(comm, 100); };
  const auto expected = [](int rank) {
    return all_but(rank, 3, "peer failed " + std::to_string(rank), "out of resources -1");
  };
  for (const int use : {1, 2, 3}) CHECK(ends_without_memory(0, use, split) == expected(0));
  CHECK(ends_without_memory(1, 1, split) == expected(1));
  for (const int use : {1, 2}) CHECK(ends_without_memory(0, use, symmetric) == expected(0));
  for (const int rank : {1, 2}) CHECK(ends_without_memory(rank, 1, symmetric) == expected(rank));
}

TEST_CASE("has_come is false for a rank whose transport's constructor throws") {
  struct refusing : kolo::detail::shm::private_mapping {
    refusing() = default;
    refusing(const refusing&) = default;
    refusing& operator=(const refusing&) = default;
    refusing(refusing&&) { throw std::bad_alloc{}; }  // by then the transport has taken its part of the region
  };
  const kolo::detail::shm::region_shape shape{2, {}};
  refusing memory;
  using transport = kolo::detail::shm::slot_transport<refusing>;
  const auto region = transport::initialise(memory, shape);
  CHECK_THROWS_AS((transport{memory, region, shape, 1}), std::bad_alloc);
  CHECK_FALSE(kolo::detail::shm::has_come(memory.map(region, shape.bytes()).get(), 1));
}

TEST_CASE("node_group::compare exchanges failures only if a rank reports one") {
  const auto said = on_threads(4, [&](auto& comm) {
    kolo::counted<kolo::threads::transport> all{std::move(comm.transport())};
    const kolo::detail::shm::node_group here{all, "node_communicator", [] {}};
    here.compare(all, {});
    const auto long_words = 4 * sizeof(kolo::failure);
    const bool is_short = all.total().bytes_received < long_words;
    return (is_short ? "short, " : "long, ") + end_of([&] { here.compare(all, {all.rank() == 2, failure_of(0)}); });
  });
  CHECK(said == all_say(4, "short, peer died 0"));
}

TEST_CASE("node_group: no rank waits for one on which something other than an error is thrown") {
  const auto said = on_threads(3, [&](auto& comm) {
    std::string end;
    const auto throws_here = [&] {
      if (comm.rank() == 1) throw std::bad_alloc{};
    };
    try {
      const kolo::detail::shm::node_group here{comm.transport(), "node_communicator", throws_here};
    } catch (const std::exception& e) {
      end = e.what();
    }
    return end + (comm.transport().failed() ? ", failed" : "");
  });
  CHECK(said == all_say(3, "kolo: rank 1: std::bad_alloc"));
}

TEST_CASE("the failure that is reported first is final for all ranks") {
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

TEST_CASE("a rank that is stopped while it reports a failure does not block the others") {
  static common<std::atomic<pid_t>> stopped;
  const auto end = on_processes(2, [](auto& comm) -> std::string {
    ::alarm(30);  // ends a test that hangs
    kolo::barrier(comm);
    if (comm.rank() == 0) {
      while (*stopped == 0) ::sched_yield();
      wait_until_stopped(*stopped);
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

TEST_CASE("a waiting rank notices the death of any peer, not only of the awaited one") {
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

TEST_CASE("a waiting rank asks the system about a few peers per poll, and about none of its own process") {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 100;
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  const auto self = kolo::detail::os::this_process();
  const kolo::detail::os::process_id parent{::getppid(), 0};
  std::vector<kolo::detail::os::process_id> ids(100, self);
  std::fill(ids.begin() + 40, ids.end(), parent);
  kolo::threads::transport::introduce(memory, region, shape, ids);
  kolo::threads::transport a{memory, region, shape, 0};
  const auto reads = [] {
    std::ifstream io{"/proc/self/io"};
    std::string name;
    for (long n = 0; io >> name >> n;)
      if (name == "syscr:") return n;
    return -1L;
  };
  const auto own = [&, before = reads()] { return reads() - before; }();
  kolo::backoff p;
  p.since = kolo::backoff::clock::now();
  long most = 0, all = 0;
  const auto polls = [&](int times) {
    for (int i = 0; i < times; ++i) {
      p.checked = {};  // long ago
      const auto before = reads();
      a.check(p, {.operation = "test", .peer = 1, .timeout = std::chrono::seconds{20}});
      const auto now = reads() - before - own;
      most = std::max(most, now), all += now;
    }
  };
  polls(25);  // asks four times about each of the 60
  CHECK(own > 0);
  CHECK(all == 4 * 60);
  CHECK(most <= 16);
  kolo::detail::shm::state_of(memory.map(region, shape.bytes()).get(), 90).id = dead_process();
  try {
    polls(25);
    FAIL("the death of rank 90 was not noticed");
  } catch (const kolo::error& e) {
    CHECK(e.code() == kolo::errc::peer_died);
    CHECK(e.peer() == 90);
  }
}

TEST_CASE("an announced death is reported by the second poll, also among 100 ranks") {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 100;
  kolo::detail::shm::private_mapping memory;
  using transport = kolo::threads::transport;
  const auto region = transport::initialise(memory, shape);
  transport a{memory, region, shape, 0};
  transport::announce_death(memory, region, shape, 90);
  kolo::backoff p;
  p.since = kolo::backoff::clock::now();
  const auto poll = [&] {
    p.checked = {};  // long ago
    a.check(p, {.operation = "test", .peer = 1, .timeout = std::chrono::seconds{20}});
  };
  poll();  // data that it sent may still be unread
  CHECK_THROWS_AS(poll(), kolo::error);
}

TEST_CASE("a dead rank that had left counts as gone only for ranks that wait for it") {
  const kolo::detail::shm::region_shape shape{3, {}};
  kolo::detail::shm::private_mapping memory;
  using transport = kolo::threads::transport;
  const auto region = transport::initialise(memory, shape);
  const transport a{memory, region, shape, 0};
  const auto dies = [&](int rank) { transport::announce_death(memory, region, shape, rank); };
  { const transport b{memory, region, shape, 1}; }
  dies(1);
  dies(2);
  CHECK(a.is_gone(1, 1));
  CHECK_FALSE(a.is_gone(1, 2));
  CHECK(a.is_gone(2, 1));
}
