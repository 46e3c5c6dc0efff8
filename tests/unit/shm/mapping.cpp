// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The regions of shared_mapping (processes) and private_mapping (threads): contents, visibility, cost.
#include <kolo/shm/shared_mapping.hpp>

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "processes/children.hpp"
#include "support/catch.hpp"

namespace {

using kolo::detail::shm::private_mapping, kolo::detail::shm::shared_mapping, kolo::detail::shm::backing, kolo::errc;

struct range {
  std::uint64_t first, bytes;
};

bool disjoint(std::vector<range> all) {
  std::sort(all.begin(), all.end(), [](range a, range b) { return a.first < b.first; });
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i - 1].first + all[i - 1].bytes > all[i].first) return false;
  }
  return true;
}

long long bytes_on_disk(const shared_mapping& m) {
  struct stat status;
  return ::fstat(m.fd(), &status) == 0 ? static_cast<long long>(status.st_blocks) * 512 : -1;
}

template <class F>
std::string refusal(F f) {
  try {
    f();
    return "accepted";
  } catch (const kolo::error& e) {
    return std::string{name(e.code())} + ": " + e.what();
  }
}

/// Mounts a new /dev/shm with these options, visible to this process only. Needs privileges.
bool small_dev_shm(const char* options) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

}  // namespace

TEST_CASE("secluded memory keeps its contents, and later writes of other processes do not reach it") {
  shared_mapping memory;
  constexpr std::size_t bytes = 100'000;
  const auto region = memory.reserve(bytes), other = memory.reserve(bytes);
  const auto mine = memory.map(region, bytes, kolo::detail::shm::ownership::alone), common = memory.map(other, bytes);
  std::fill_n(mine.get(), bytes, std::byte{1});
  const auto piece = memory.make_remote_ref(mine.get() + 10'000, 5'000);
  const auto write_all = [&] {
    testing::child{[&] {
      std::fill_n(shared_mapping{kolo::detail::os::descriptor{::dup(memory.fd())}}.window_of(piece).get(), bytes,
                  std::byte{9});
      return std::string{};
    }}.result();
  };
  memory.begin_lending();  // lent memory may lie on the same pages
  CHECK(!memory.seclude(piece, 5'000));
  memory.end_lending();
  CHECK(!memory.seclude(memory.make_remote_ref(common.get(), 10), 10));
  REQUIRE(memory.make_remote_ref(mine.get() + 10'000, 5'000).length != 0);

  std::atomic<bool> enough{false};
  std::jthread busy{[&] {  // writes next to the secluded bytes, on one of their pages
    auto* const count = reinterpret_cast<int*>(mine.get() + 8192);
    for (int i = 0; !enough || i < 1000; ++i)
      if (i > 0 && *count != i - 1) return;
      else *count = i;
    *count = -1;
  }};
  CHECK(memory.seclude(piece, 5'000));
  CHECK(memory.seclude(piece, 5'000));
  enough = true;
  busy.join();
  CHECK(*reinterpret_cast<const int*>(mine.get() + 8192) == -1);  // no write was lost
  write_all();
  CHECK(std::count(mine.get() + 10'000, mine.get() + 15'000, std::byte{1}) == 5'000);
  CHECK(mine.get()[0] == std::byte{9});
  CHECK(memory.make_remote_ref(mine.get() + 14'000, 10).length == 0);
  CHECK(memory.make_remote_ref(mine.get(), 8192).length != 0);
  memory.forget(mine.get() + 8192, 8192);
  CHECK(memory.make_remote_ref(mine.get() + 14'000, 10).length != 0);
}

TEMPLATE_TEST_CASE("a region is zeroed, page-aligned, and the same memory for all that map it", "", shared_mapping,
                   private_mapping) {
  TestType memory;
  TestType copy = memory;
  const auto a = memory.reserve(100), b = copy.reserve(100'000);
  REQUIRE(a != 0);
  REQUIRE(a != b);
  const auto first = memory.map(a, 100), again = copy.map(a, 100), other = memory.map(b, 100'000);
  CHECK(reinterpret_cast<std::uintptr_t>(first.get()) % kolo::detail::shm::page_size() == 0);
  CHECK(std::all_of(other.get(), other.get() + 100'000, [](std::byte x) { return x == std::byte{0}; }));
  first.get()[99] = std::byte{42};
  CHECK(again.get()[99] == std::byte{42});
  CHECK(other.get()[99] == std::byte{0});
  memory.seal(a);
  CHECK(again.get()[99] == std::byte{42});
  CHECK(refusal([&] { memory.map(b, std::size_t{1} << 40); }).starts_with("mismatch: kolo: no region"));
  CHECK(refusal([&] { memory.map(12345, 1); }).starts_with("mismatch: kolo: no region"));
  CHECK(refusal([&] {
          memory.reserve(std::size_t{1} << 60);
        }).starts_with("out of resources: kolo: 1152921504606846976 bytes"));
}

TEST_CASE("a region of threads exists until it is sealed and unmapped") {
  private_mapping memory;
  const auto r = memory.reserve(10);
  CHECK_NOTHROW(memory.map(r, 10));  // unmapped at once, but not sealed
  auto held = memory.map(r, 10);
  memory.seal(r);
  CHECK_NOTHROW(memory.map(r, 10));
  held.reset();
  CHECK_THROWS_AS(memory.map(r, 10), kolo::error);
}

TEST_CASE("threads that reserve at the same time get distinct regions") {
  private_mapping memory;
  std::vector<std::vector<std::uint64_t>> got(4);
  std::vector<std::thread> all;
  for (auto& mine : got)
    all.emplace_back([&memory, &mine] {
      for (int i = 0; i < 200; ++i) mine.push_back(memory.reserve(64));
    });
  for (auto& t : all) t.join();
  std::set<std::uint64_t> distinct;
  for (const auto& mine : got) distinct.insert(mine.begin(), mine.end());
  CHECK(distinct.size() == 800);
}

TEST_CASE("a parent sees the regions that its child reserves, and their contents") {
  shared_mapping memory;
  const auto region = memory.reserve(1000);
  const auto mine = memory.map(region, 1000);
  const auto theirs = std::stoull(testing::child{[&] {
                                    memory.map(region, 1000).get()[7] = std::byte{7};
                                    const auto fresh = memory.reserve(5'000'000);
                                    memory.map(fresh, 5'000'000).get()[4'999'999] = std::byte{9};
                                    return std::to_string(fresh);
                                  }}.result());
  CHECK(mine.get()[7] == std::byte{7});
  CHECK(memory.map(theirs, 5'000'000).get()[4'999'999] == std::byte{9});
  CHECK(disjoint({{region, 1000}, {theirs, 5'000'000}, {memory.reserve(1), 1}}));
}

TEST_CASE("processes that reserve at the same time get disjoint regions, and the file never shrinks") {
  const auto where = GENERATE(backing::automatic, backing::dev_shm);
  shared_mapping memory{where};
  constexpr int processes = 3, regions = 300;
  const auto bytes = [](int i) { return static_cast<std::size_t>(1 + i * 97 % 20'000); };
  testing::wire go;
  std::vector<testing::child> all;
  for (int p = 0; p < processes; ++p)
    all.emplace_back([&, p] {
      go.hear();
      std::ostringstream list;
      for (int i = 0; i < regions; ++i) {
        const auto r = memory.reserve(bytes(i));
        memory.map(r, bytes(i)).get()[bytes(i) - 1] = static_cast<std::byte>(1 + p);
        list << r << ' ';
      }
      return list.str();
    });
  go.say(std::string(processes, '!'));
  std::vector<range> reserved;
  bool kept = true;
  for (int p = 0; p < processes; ++p) {
    std::istringstream list{all[static_cast<std::size_t>(p)].result()};
    std::uint64_t r;
    for (int i = 0; list >> r; ++i) {
      reserved.push_back({r, bytes(i)});
      kept = kept && memory.map(r, bytes(i)).get()[bytes(i) - 1] == static_cast<std::byte>(1 + p);
    }
  }
  CHECK(reserved.size() == processes * regions);
  CHECK(disjoint(reserved));
  CHECK(kept);
}

TEST_CASE("shared_mapping: untouched memory uses no pages, and discarded memory is returned") {
  shared_mapping memory;
  constexpr std::size_t gibibyte = std::size_t{1} << 30, part = std::size_t{1} << 20;
  const auto big = memory.reserve(gibibyte), small = memory.reserve(part);
  CHECK(bytes_on_disk(memory) < 64 * 1024);
  const auto data = memory.map(small, part);
  std::fill(data.get(), data.get() + part, std::byte{1});
  CHECK(bytes_on_disk(memory) >= static_cast<long long>(part));
  memory.discard(small, part);
  CHECK(bytes_on_disk(memory) < 64 * 1024);
  CHECK(data.get()[part - 1] == std::byte{0});
  const auto before = bytes_on_disk(memory);
  for (int i = 0; i < 10; ++i) {
    constexpr std::size_t odd = 5000;  // not a multiple of the page size
    const auto region = memory.reserve(odd);
    memory.map(region, odd).get()[odd - 1] = std::byte{1};
    memory.discard(region, odd);
  }
  CHECK(bytes_on_disk(memory) == before);
  CHECK(memory.map(big, gibibyte).get()[gibibyte - 1] == std::byte{0});
}

TEST_CASE("window_of finds the memory that a peer referred to, and a region in use keeps its address") {
  shared_mapping mine;
  const shared_mapping peers{kolo::detail::os::descriptor{::dup(mine.fd())}};
  const auto region = mine.reserve(10'000);
  const auto data = mine.map(region, 10'000);
  data.get()[5000] = std::byte{42};
  const std::byte local{};
  CHECK(mine.make_remote_ref(&local, 1).length == 0);
  CHECK(mine.make_remote_ref(data.get() + 5000, 100'000).length == 0);
  const auto where = mine.make_remote_ref(data.get() + 5000, 10);
  const auto at = [&](const kolo::remote_ref& r) { return peers.window_of(r).get() + r.offset; };
  const std::byte* const seen = at(where);
  bool found = true, stays = true;
  for (int i = 0; i < 1000; ++i) {
    const auto other = mine.reserve(1);
    const auto memory = mine.map(other, 1);
    *memory = static_cast<std::byte>(i);
    stays = stays && at(where) == seen;
    found = found && *at(mine.make_remote_ref(memory.get(), 1)) == *memory;
    stays = stays && *seen == std::byte{42};  // reads it: it must still be mapped
  }
  CHECK(found);
  CHECK(stays);
}

TEST_CASE("a peer's discarded regions are unmapped; its other regions are unmapped when address space runs out") {
  const auto address_space = [] {  // of this process, in bytes
    std::size_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;
    return pages * kolo::detail::shm::page_size();
  };
  constexpr std::size_t bytes = std::size_t{64} << 20, room = std::size_t{1} << 30;
  constexpr int regions = 100;  // six times `room`
  shared_mapping mine;
  const shared_mapping peers{kolo::detail::os::descriptor{::dup(mine.fd())}};
  const auto refer_to_all = [&](bool gives_back) {
    for (int i = 0; i < regions; ++i) {
      const auto region = mine.reserve(bytes);
      const auto memory = mine.map(region, bytes);
      memory.get()[i] = std::byte{42};
      if (peers.window_of(mine.make_remote_ref(memory.get(), 1)).get()[i] != std::byte{42}) return false;
      if (gives_back) mine.discard(region, bytes);
    }
    return true;
  };
  const std::size_t before = address_space();
  CHECK(refer_to_all(true));
  CHECK(address_space() < before + room);
  CHECK(testing::child{[&]() -> std::string {
          const rlimit limit{address_space() + room, RLIM_INFINITY};
          return ::setrlimit(RLIMIT_AS, &limit) == 0 && refer_to_all(false) ? "found" : "not found";
        }}.result() == "found");
}

TEST_CASE("the segment's file belongs to this user with mode 0600, has no name, and is closed by exec") {
  const auto before = testing::files_in("/dev/shm");
  const auto where = GENERATE(backing::automatic, backing::dev_shm);
  const shared_mapping memory{where};
  struct stat status;
  REQUIRE(::fstat(memory.fd(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(status.st_uid == ::geteuid());
  CHECK((::fcntl(memory.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(testing::nothing_stays_in_dev_shm(before));
}

TEST_CASE("writes to standard output or error, once closed, do not reach the segment") {
  const auto where = GENERATE(backing::automatic, backing::dev_shm);
  const std::string said = testing::child{[&]() -> std::string {
                             const shared_mapping open;
                             for (const int fd : {0, 1, 2}) ::close(fd);
                             shared_mapping made{where}, taken{kolo::detail::os::descriptor{::dup(open.fd())}};
                             for (const int fd : {1, 2})
                               if (::write(fd, "!", 1) >= 0) return "written to " + std::to_string(fd);
                             const bool closed =
                                 (::fcntl(made.fd(), F_GETFD) & ::fcntl(taken.fd(), F_GETFD) & FD_CLOEXEC) != 0;
                             return closed ? "kept apart" : "open after exec";
                           }}.result();
  CHECK(said == "kept apart");
}

TEST_CASE("only a segment of this user and of this version is accepted") {
  using kolo::detail::os::descriptor;
  const auto take = [](int fd) { return refusal([&] { shared_mapping{descriptor{::dup(fd)}}; }); };
  const shared_mapping good;
  CHECK(take(good.fd()) == "accepted");
  const descriptor null{::open("/dev/null", O_RDWR)}, empty{::memfd_create("empty", 0)},
      zeros{::memfd_create("zeros", 0)};
  CHECK(take(null.get()) == "mismatch: kolo: the descriptor received is not a shared segment");
  CHECK(take(empty.get()) == "mismatch: kolo: the descriptor received is not a shared segment");
  REQUIRE(::ftruncate(zeros.get(), 1 << 20) == 0);
  CHECK(take(zeros.get()) == "mismatch: kolo: the shared segment was made by another version of the library");
  const descriptor other_version{::memfd_create("other", 0)};
  const std::uint64_t head[] = {kolo::detail::shm::segment_header::expected_magic, 2};
  REQUIRE(::ftruncate(other_version.get(), 1 << 20) == 0);
  REQUIRE(::pwrite(other_version.get(), head, sizeof head, 0) == sizeof head);
  CHECK(take(other_version.get()) == "mismatch: kolo: the shared segment was made by another version of the library");
  if (::geteuid() != 0) {
    WARN("skipped without root: the segment of another user");
    return;
  }
  CHECK(testing::child{[&] { return ::setuid(65534) == 0 ? take(good.fd()) : "setuid failed"; }}.result() ==
        "mismatch: kolo: the shared segment belongs to user 0, not to user 65534");
}

TEST_CASE("without memfd_create the segment is an unnamed file in /dev/shm") {
  const auto before = testing::files_in("/dev/shm");
  const int error = GENERATE(ENOSYS, EPERM);
  const std::string said = testing::child{[&]() -> std::string {
                             if (!testing::forbid(SYS_memfd_create, error)) return "no seccomp";
                             const shared_mapping memory;
                             char target[256] = {};
                             const std::string link = "/proc/self/fd/" + std::to_string(memory.fd());
                             if (::readlink(link.c_str(), target, sizeof target - 1) < 0) return "no link";
                             return target;
                           }}.result();
  if (said == "no seccomp") {
    WARN("skipped: this system has no seccomp filters");
    return;
  }
  CHECK(said.starts_with("/dev/shm/"));
  CHECK(testing::nothing_stays_in_dev_shm(before));
}

TEST_CASE("a /dev/shm that is too small is an error with the sizes, not a signal") {
  const std::string said = testing::child{[]() -> std::string {
                             if (!small_dev_shm("size=1m")) return "no mount";
                             shared_mapping memory{backing::dev_shm};
                             const std::string text = refusal([&] { memory.reserve(8 << 20); });
                             const auto fits = memory.map(memory.reserve(500'000), 500'000);  // the mapping still works
                             std::fill(fits.get(), fits.get() + 500'000, std::byte{1});
                             return text;
                           }}.result();
  if (said == "no mount") {
    WARN("skipped without privileges: a small /dev/shm");
    return;
  }
  CHECK(said ==
        "out of resources: kolo: the shared segment needs 8388608 bytes more, and 1044480 are free: No space left on "
        "device; a container has what --shm-size says, and a smaller .slot_bytes needs less");
}

TEST_CASE("a limit on file size is an error, not a signal") {
  const std::string said = testing::child{[] {
                             const rlimit limit{1 << 20, 1 << 20};
                             ::setrlimit(RLIMIT_FSIZE, &limit);
                             shared_mapping memory;
                             const std::string text = refusal([&] { memory.reserve(2 << 20); });
                             memory.reserve(500'000);
                             return text;
                           }}.result();
  CHECK(said ==
        "out of resources: kolo: the shared segment needs 2101248 bytes, with those of groups that have gone, and "
        "`ulimit -f` allows 1048576");
}
