// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// is_alive: false for a zombie and for a reused pid, true where it cannot be determined.
#include <kolo/os/process.hpp>

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "processes/children.hpp"
#include "support/catch.hpp"

namespace {
std::atomic<long> allocations{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* const p = ::operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using kolo::detail::os::is_alive, kolo::detail::os::process_id, kolo::detail::os::this_process;

TEST_CASE("this_process is alive, and read_status reports its parent") {
  const process_id me = this_process();
  CHECK(me.pid == ::getpid());
  CHECK(me.start_time > 0);
  CHECK(is_alive(me));
  CHECK(me == this_process());
  CHECK(kolo::detail::os::read_status(me.pid).parent == ::getppid());
}

TEST_CASE("is_alive: true for a running child, false for a zombie, a reaped child and a reused pid") {
  testing::wire born, never;
  testing::child c{[&] {
    born.say("!");
    return never.hear();
  }};
  born.hear();
  const process_id id{c.pid(), kolo::detail::os::read_status(c.pid()).start_time};
  CHECK(is_alive(id));
  CHECK_FALSE(is_alive({id.pid, id.start_time + 1}));
  CHECK(is_alive({id.pid, 0}));  // 0: an unknown start time, which is not compared
  c.kill();
  c.await_end();
  CHECK(kolo::detail::os::read_status(id.pid).state == 'Z');
  CHECK_FALSE(is_alive(id));
  CHECK_FALSE(is_alive({id.pid, 0}));
  CHECK(c.result() == "signal 9");
  CHECK_FALSE(is_alive(id));
}

namespace {
/// f() without a free file descriptor.
template <class F>
auto without_descriptors(F f) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto result = f();
  ::setrlimit(RLIMIT_NOFILE, &before);
  return result;
}
}  // namespace

TEST_CASE("is_alive needs no free file descriptor") {
  testing::wire never;
  testing::child c{[&] { return never.hear(); }};
  const process_id id{c.pid(), kolo::detail::os::read_status(c.pid()).start_time};
  const auto lives = [&] { return without_descriptors([&] { return is_alive(id); }); };
  CHECK(without_descriptors([] { return ::open("/proc/self/stat", O_RDONLY) < 0 && is_alive(this_process()); }));
  CHECK(lives());
  c.kill();
  c.await_end();
  CHECK_FALSE(lives());
  CHECK(c.result() == "signal 9");
  CHECK_FALSE(lives());
}

TEST_CASE("a process whose main thread has ended is alive while another thread runs") {
  testing::wire never;
  testing::child c{[&]() -> std::string {
    std::thread{[&] { never.hear(), ::_exit(0); }}.detach();
    ::syscall(SYS_exit, 0);
    return "";
  }};
  while (kolo::detail::os::read_status(c.pid()).state != 'Z') ::sched_yield();
  const process_id id{c.pid(), kolo::detail::os::read_status(c.pid()).start_time};
  CHECK(is_alive(id));
  CHECK(without_descriptors([&] { return is_alive(id); }));
  c.kill();
  c.await_end();
  CHECK_FALSE(is_alive(id));
  CHECK_FALSE(without_descriptors([&] { return is_alive(id); }));
}

TEST_CASE("a stopped process is alive") {
  testing::wire never;
  testing::child c{[&] { return never.hear(); }};
  c.kill(SIGSTOP);
  siginfo_t info;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(c.pid()), &info, WSTOPPED | WNOWAIT) == 0);
  CHECK(is_alive({c.pid(), kolo::detail::os::read_status(c.pid()).start_time}));
}

TEST_CASE("a process name that resembles fields of /proc/PID/stat changes nothing") {
  const std::string said = testing::child{[] {
                             const process_id before = this_process();
                             ::prctl(PR_SET_NAME, ") Z 1 (a) X 2 )");
                             return std::string{before == this_process() && is_alive(before) ? "the same" : "fooled"};
                           }}.result();
  CHECK(said == "the same");
}

TEST_CASE("without /proc, every process counts as alive") {
  const std::string said =
      testing::child{[]() -> std::string {
        const process_id me = this_process(), nobody{me.pid + 1'000'000'000, 1};
        if (is_alive(nobody)) return "a number without a process is alive";
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", "/proc", "tmpfs", 0, "size=64k") != 0)
          return "no mount";
        return is_alive(me) && is_alive(nobody) && this_process().start_time == 0 ? "alive" : "dead";
      }}.result();
  if (said == "no mount") {
    WARN("skipped without privileges: a system without /proc");
    return;
  }
  CHECK(said == "alive");
}

TEST_CASE("a process that /proc hides is alive while its pid exists") {
  const std::string said =
      testing::child{[]() -> std::string {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("proc", "/proc", "proc", 0, "hidepid=2") != 0)
          return "no mount";
        testing::wire never;
        const auto start = [&] { return testing::child{[&] { return never.hear(); }}; };
        const auto is_hidden = [](const process_id& p) { return !kolo::detail::os::read_status(p.pid).found; };
        auto root = start();
        const process_id privileged{root.pid(), kolo::detail::os::read_status(root.pid()).start_time};
        if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) return "no other user";
        auto equal = start();  // hidden although it has the same user: its credentials have changed
        const process_id mine{equal.pid(), 0};
        if (!is_hidden(mine) || !is_hidden(privileged)) return "not hidden";
        const auto both = [&] {
          const auto one = [](const process_id& p) { return std::string{is_alive(p) ? "alive " : "dead "}; };
          const auto by_paths = without_descriptors([&] { return one(mine) + one(privileged); });
          return one(mine) + one(privileged) + by_paths;
        };
        const std::string before = both();
        equal.kill();
        equal.result();
        const std::string after = both();
        never.say("!");  // this user may not kill the other one
        root.result();
        return before + "- " + after;
      }}.result();
  for (const char* const cannot : {"no mount", "no other user", "not hidden"})
    if (said == cannot) {
      WARN("skipped: a /proc that hides processes: " << cannot);
      return;
    }
  CHECK(said == "alive alive alive alive - dead alive dead alive ");
}

TEST_CASE("is_alive allocates nothing and leaves no file open") {
  const process_id me = this_process();
  const auto open_before = testing::files_in("/proc/self/fd").size();
  const long before = allocations;
  bool alive = true;
  for (int i = 0; i < 1000; ++i) alive = alive && is_alive(me) && !is_alive({me.pid, me.start_time + 1});
  const long after = allocations;
  CHECK(alive);
  CHECK(after == before);
  CHECK(testing::files_in("/proc/self/fd").size() == open_before);
}
