// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in how processes are started, identified, watched, and given memory.
// built with others: ranks
#include <kolo/launch/job_id.hpp>
#include <kolo/launch/rendezvous.hpp>
#include <kolo/launch/spawn.hpp>

#include <sys/resource.h>

#include <dlfcn.h>
#include <pthread.h>

#include <map>
#include <optional>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "processes/children.hpp"

using namespace kolo;
using namespace std::chrono_literals;

static bool memory_is_shared() {
  kolo::detail::shm::shared_mapping m;
  const auto a = m.reserve(1), b = m.reserve(10'000);
  const auto data = m.map(b, 10'000);
  testing::child{[&] { return m.map(b, 10'000).get()[9'999] = std::byte{1}, std::string{}; }}.result();
  if (b - a != detail::shm::page_size() || data.get()[9'999] != std::byte{1}) return false;
  m.discard(b, 10'000);
  kolo::detail::shm::private_mapping p;
  const auto r = p.reserve(1);
  p.map(r, 1);
  p.seal(r);
  bool gone = false;
  try {
    p.map(r, 1);
  } catch (const error&) {
    gone = true;
  }
  return gone && data.get()[9'999] == std::byte{0};
}

static bool the_dead_are_told_from_the_living() {
  testing::wire never;
  testing::child c{[&] { return never.hear(); }};
  const kolo::detail::os::process_id id{c.pid(), detail::os::read_status(c.pid()).start_time};
  const bool lived = kolo::detail::os::is_alive(id) && !kolo::detail::os::is_alive({id.pid, id.start_time + 1}) &&
                     kolo::detail::os::this_process().start_time > 0;
  c.kill();
  c.await_end();
  const auto without_descriptors = [&] {
    rlimit few{};
    ::getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 0;  // for new descriptors; the child's result has its own already
    ::setrlimit(RLIMIT_NOFILE, &few);
    return std::string{kolo::detail::os::is_alive(id) ? "alive" : "dead"};
  };
  return lived && !kolo::detail::os::is_alive(id) && testing::child{without_descriptors}.result() == "dead";
}

static bool a_main_thread_may_end() {
  testing::wire never;
  testing::child c{[&]() -> std::string {
    std::thread{[&] { never.hear(), ::_exit(0); }}.detach();
    ::syscall(SYS_exit, 0);
    return "";
  }};
  while (detail::os::read_status(c.pid()).state != 'Z') ::sched_yield();
  return kolo::detail::os::is_alive({c.pid(), 0});
}

static bool ranks_are_launched() {
  const auto status = [](int (*body)(void*, int)) {
    int deaths = 0;
    const int s = detail::launch::spawn(3, body, &deaths, [](void* d, int) { ++*static_cast<int*>(d); });
    return std::pair{s, deaths};
  };
  ::dup2(detail::os::descriptor{::open("/dev/null", O_WRONLY)}.get(), 2);  // the text on stderr is tested elsewhere
  return status([](void*, int) { return 0; }) == std::pair{0, 0} &&
         status([](void*, int r) { return r == 1 ? 3 : 0; }) == std::pair{3, 0} &&
         status([](void*, int r) { return r == 2 ? ::raise(SIGKILL) : 0; }) == std::pair{137, 1} &&
         status([](void*, int r) -> int {
           if (r == 2) return ::poll(nullptr, 0, 20), ::raise(SIGKILL);
           throw error{errc::peer_died, "rank 2 died"};  // a consequence of rank 2's death, though it ends first
         }) == std::pair{137, 3};
}

static std::optional<std::jthread> idle;
static void be_idle() {
  idle.emplace([](std::stop_token stop) {
    while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
  });
}

static bool a_program_with_threads_is_refused() {
  const auto launched = [](void (*before)()) {
    return testing::child{[before] {
             before();
             std::string end;
             try {
               end = std::to_string(detail::launch::spawn(
                   1, [](void*, int) { return 0; }, nullptr, [](void*, int) {}));
             } catch (const error& e) {
               end = kolo::name(e.code());
             }
             idle.reset();
             return end;
           }}
        .result();
  };
  return launched([] {}) == "0" && launched(be_idle) == "invalid argument" &&
         launched([] { be_idle(), ::pthread_atfork([] { idle.reset(); }, nullptr, nullptr); }) == "0" &&
         launched([] {
           using parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
           reinterpret_cast<parallel>(::dlsym(::dlopen("libgomp.so.1", RTLD_LAZY), "GOMP_parallel"))([](void*) {},
                                                                                                     nullptr, 3, 0);
         }) == "0";
}

static bool the_environment_is_checked() {
  const auto size = [](std::map<std::string, std::string> v) {
    try {
      return from_environment([&](const char* n) { return v.count(n) ? v[n].c_str() : nullptr; }).size;
    } catch (const error&) {
      return -1;
    }
  };
  return size({}) == 1 && size({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}) == 2 &&
         size({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}) == -1 && size({{"PMI_RANK", "1x"}, {"PMI_SIZE", "2"}}) == -1 &&
         size({{"RANK", "1"}}) == -1 && detail::launch::tasks_on_node("2(x3),1", 3) == 1 &&
         size({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}) == 1 &&
         !detail::launch::sets("RANKS=1", "RANK");
}

static bool ranks_meet(const std::vector<detail::launch::rendezvous_options>& who, const char* expected) {
  const std::string name = "kolo/mutants/" + std::to_string(::getpid());
  for (const auto& said : testing::in_children(static_cast<int>(who.size()), [&](int r) -> std::string {
         auto i = who[static_cast<std::size_t>(r)];
         i.name = name;
         try {
           detail::launch::rendezvous(i, [](kolo::detail::shm::shared_mapping& m,
                                            const std::vector<kolo::detail::os::process_id>&) { return m.reserve(1); });
           return "met";
         } catch (const error& e) {
           return std::string{kolo::name(e.code())};
         }
       }))
    if (said != expected) return false;
  return true;
}

/// Two ranks meet though another socket has their address and does not answer.
static bool ranks_meet_elsewhere(const std::vector<detail::launch::rendezvous_options>& who) {
  const detail::os::descriptor silent = detail::launch::new_socket();
  const detail::launch::socket_address here{"kolo/mutants/" + std::to_string(::getpid())};
  return ::bind(silent.get(), here.get(), here.length) == 0 && ranks_meet(who, "met");
}

/// More connections come and go than rank 0 has descriptors.
static bool knocks_are_heard_in_turns(detail::launch::rendezvous_options i) {
  i.name = "kolo/mutants/knocks/" + std::to_string(::getpid());
  return testing::child{[&]() -> std::string {
           auto listener = detail::launch::listen_at(i.name);
           for (int knocks = 0; knocks < 300 && detail::launch::connect_to(i.name);) ++knocks;
           const rlimit few{100, 100};
           ::setrlimit(RLIMIT_NOFILE, &few);
           try {
             detail::launch::rendezvous_server{i, std::move(listener), detail::launch::rendezvous_clock::now()}.receive(
                 [](kolo::detail::shm::shared_mapping& m, const auto&) { return m.reserve(1); });
           } catch (const error& e) {
             return std::string{kolo::name(e.code())};
           }
           return "met";
         }}.result() == "timeout";
}

int main() {
  const auto rank = [](int r, int size, std::chrono::nanoseconds timeout = 5s, std::int64_t slots = 4) {
    return detail::launch::rendezvous_options{r, size, {}, timeout, {{"slots", slots}}};
  };
  const bool good =
      memory_is_shared() && the_dead_are_told_from_the_living() && a_main_thread_may_end() &&
      the_environment_is_checked() && ranks_are_launched() && a_program_with_threads_is_refused() &&
      ranks_meet({rank(0, 3), rank(1, 3), rank(2, 3)}, "met") && ranks_meet({rank(0, 2), rank(1, 3)}, "mismatch") &&
      ranks_meet({rank(0, 3), rank(1, 3), rank(1, 3)}, "mismatch") &&
      ranks_meet({rank(0, 2), rank(1, 2, 5s, 2)}, "mismatch") &&
      ranks_meet({rank(0, 3), rank(1, 3, 50ms)}, "timeout") && ranks_meet_elsewhere({rank(0, 2, 2s), rank(1, 2, 2s)}) &&
      knocks_are_heard_in_turns(rank(0, 2, 50ms));
  return good ? 0 : 1;
}
