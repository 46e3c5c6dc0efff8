// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What containers forbid, and what another user must not get. Status 77: not run. Usage: limits
// small_dev_shm|no_memfd|ptrace_denied|one_cpu|cores|fences|cpu_quota|another_user|pid_namespace
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstring>
#include <latch>
#include <thread>

#include "processes/what_ranks_say.hpp"

using namespace testing;

namespace {

bool has_two_cores_for_each = false;

}

/// Replaces the system's: if `has_two_cores_for_each`, every process is bound to two cores of its own.
extern "C" int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* set) noexcept {
  CPU_ZERO(set);
  if (!has_two_cores_for_each) return ::syscall(SYS_sched_getaffinity, process, bytes, set) < 0 ? -1 : 0;
  const auto first = 2 * static_cast<std::size_t>((process != 0 ? process : ::getpid()) % 500);
  CPU_SET(first, set);
  CPU_SET(first + 1, set);
  return 0;
}

namespace {

int not_run(const char* why) {
  std::printf("not run: %s: %s\n", why, std::strerror(errno));
  return 77;
}
int expect(bool condition, const std::string& otherwise) {
  if (!condition) std::printf("wrong: %s\n", otherwise.c_str());
  return condition ? 0 : 1;
}

/// Some calls on 4 processes; returns the status of launch.
int some_calls(std::size_t slot_bytes = 64 * 1024, int barriers = 10) {
  return kolo::shm::launch(4,
                           [&](auto& comm) {
                             std::vector<int> x(200'000, comm.rank());
                             kolo::allreduce(comm, x, kolo::sum);
                             for (int k = 0; k < barriers; ++k) kolo::barrier(comm);
                             return x.front() == 6 && x.back() == 6 ? 0 : 1;
                           },
                           {.timeout = std::chrono::seconds{60}, .slot_bytes = slot_bytes});
}

/// Gives this process a /dev/shm of its own, of one megabyte.
bool shrink_dev_shm() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/dev/shm", "tmpfs", 0, "size=1m") == 0;
}

int small_dev_shm() {
  if (!shrink_dev_shm()) return not_run("a mount namespace with a small /dev/shm is not available");
  return expect(some_calls() == 0, "4 ranks do not run with a /dev/shm of 1 MB");
}

int no_memfd() {
  if (!shrink_dev_shm()) return not_run("a mount namespace with a small /dev/shm is not available");
  if (!forbid(SYS_memfd_create, ENOSYS)) return not_run("seccomp refuses the filter");
  const auto said = words_of([] { some_calls(); });
  const bool in_words = said.find("the shared segment needs ") != std::string::npos &&
                        said.find(" are free: No space left on device") != std::string::npos;
  return expect(in_words, "no message with the bytes needed and free, but: " + said) +
         expect(some_calls(512) == 0, "slots that fit do not run");
}

int ptrace_denied() {
  for (const long call : {SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_pidfd_getfd})
    if (!forbid(call, EPERM)) return not_run("seccomp refuses the filter");
  return expect(some_calls() == 0, "4 ranks need what containers forbid");
}

/// On one processor a waiting rank must let the others run: a time slice for each step of a barrier would be seconds.
int one_cpu() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) return not_run("this process may not be bound to one processor");
  const int wrong = expect(some_calls(64 * 1024, 1000) == 0, "4 ranks do not run on one processor");
  struct rusage used;
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                       1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  return wrong + expect(seconds < 3, "1000 barriers took " + std::to_string(seconds) + " s of the processor");
}

/// A rank whose peers have cores of their own polls before it yields, and one that shares its core yields at once, whatever its own binding suggests.
int cores() {
  const auto look = [](int ranks, bool looks) {
    return kolo::shm::launch(ranks, [&](auto& comm) {
      for (int k = 0; k < 1000; ++k) kolo::barrier(comm);
      return (comm.transport().first_polls() > 0) == looks ? 0 : 1;
    });
  };
  has_two_cores_for_each = true;
  const int apart = expect(look(4, true) == 0, "4 ranks with two cores each do not poll");
  has_two_cores_for_each = false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) return not_run("this process may not be bound to one processor");
  const int parts = kolo::shm::launch(4, [](auto& comm) {
    auto pair = comm.split(comm.rank() / 2, comm.rank());
    return pair.transport().first_polls() == 0 ? 0 : 1;
  });
  return apart + expect(look(2, false) == 0, "2 ranks that share one core poll") +
         expect(parts == 0, "a split communicator of ranks that share one core polls");
}

/// Ranks with cores of their own leave the fence before a notification to those that sleep, unless one cannot be fenced.
int fences() {
  has_two_cores_for_each = true;
  const auto without = [](int refuses) {
    return in_children(2, [&](int rank) -> std::string {
      if ((rank == refuses || refuses == 2) && !forbid(SYS_membarrier, ENOSYS)) return "not run";
      ::setenv("KOLO_RANK", std::to_string(rank).c_str(), 1), ::setenv("KOLO_SIZE", "2", 1);
      std::latch end{1};
      std::jthread other;  // beside it, a rank that has been introduced takes milliseconds to come
      if (refuses < 0 && rank == 1) other = std::jthread{[&] { end.wait(); }};
      auto comm = kolo::shm::world({.timeout = std::chrono::seconds{60}});
      std::vector<int> left(1);
      for (int turn = 0; turn < (refuses < 0 ? 4000 : 20) && left[0] == 0;
           ++turn) {  // on a busy host one is not enough
        if (turn % 2 == rank) std::this_thread::sleep_for(std::chrono::milliseconds{5});  // the other one sleeps
        kolo::barrier(comm);
        left[0] = comm.transport().leaves_fence_to_waiters();
        kolo::allreduce(comm, left, kolo::min);
      }
      end.count_down();
      return comm.transport().leaves_fence_to_waiters() ? "leaves it" : "keeps it";
    });
  };
  using all = std::vector<std::string>;
  const all none = without(2), one = without(1), with = without(-1);
  if (none[0] == "not run") return not_run("seccomp refuses the filter");
  const long can = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const bool is_there = can > 0 && (can & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
  return expect(none == all(2, "keeps it"), "without membarrier, a rank " + none[0] + ", " + none[1]) +
         expect(one == all(2, "keeps it"), "where rank 1 has no membarrier, a rank " + one[0] + ", " + one[1]) +
         expect(!is_there || with == all(2, "leaves it"), "with membarrier, a rank " + with[0] + ", " + with[1]);
}

/// Ranks in a pid namespace of their own, while /proc shows another one.
int pid_namespace() {
  if (::unshare(CLONE_NEWPID) != 0) return not_run("a pid namespace is not available");
  const auto said = child{[] { return some_calls() == 0 ? std::string{"ran"} : std::string{"failed"}; }}.result();
  return expect(said == "ran", "4 ranks do not run if /proc is of another namespace: " + said);
}

bool write_to(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int why = errno;
  if (file >= 0) ::close(file);
  return errno = why, written;
}

/// A control group with a tenth of a processor: of version 2 or 1, whichever this process may make.
class tenth_of_a_processor {
 public:
  tenth_of_a_processor() {
    for (const char* place :
         {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
      path_ = std::string{place} + "/kolo-limits-" + std::to_string(::getpid());
      if (::mkdir(path_.c_str(), 0700) != 0) continue;
      if (write_to(path_ + "/cpu.max", "2000 20000") ||
          (write_to(path_ + "/cpu.cfs_period_us", "20000") && write_to(path_ + "/cpu.cfs_quota_us", "2000")))
        return;
      const int why = errno;
      ::rmdir(path_.c_str());
      errno = why;
    }
    path_.clear();
  }
  tenth_of_a_processor(const tenth_of_a_processor&) = delete;
  tenth_of_a_processor& operator=(const tenth_of_a_processor&) = delete;
  ~tenth_of_a_processor() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  bool is_there() const { return !path_.empty(); }
  bool enter() const { return write_to(path_ + "/cgroup.procs", std::to_string(::getpid())); }
  /// Has it throttled a process?
  bool has_throttled() const {
    char text[1024]{};
    const int file = ::open((path_ + "/cpu.stat").c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_read = file >= 0 && ::read(file, text, sizeof text - 1) > 0;
    if (file >= 0) ::close(file);
    const char* const found = is_read ? std::strstr(text, "nr_throttled ") : nullptr;
    return found && found[13] != '0';
  }

 private:
  std::string path_;
};

/// A rank that spins uses up the time that the others need: they go on in the next period, 20 ms later. That must not happen at every barrier.
int cpu_quota() {
  const tenth_of_a_processor group;
  if (!group.is_there()) return not_run("no control group with a quota is available");
  const auto said =
      child{[&] {
        if (!group.enter()) return std::string{"cannot enter"};
        const auto begin = std::chrono::steady_clock::now();
        const int status = some_calls(64 * 1024, 2000);
        return std::to_string(status) +
               (std::chrono::steady_clock::now() - begin < std::chrono::seconds{60} ? " in time" : " late");
      }}.result();
  if (said == "cannot enter") return not_run("the control group may not be entered");
  if (!group.has_throttled())
    return errno = EBUSY, not_run("the quota was never used up, since others have the processors");
  return expect(said == "0 in time", "with a tenth of a processor, 4 ranks ended: " + said);
}

constexpr uid_t nobody_else = 65534;

/// The result of f() as another user.
template <class F>
std::string as_another(F f) {
  return child{[&] { return ::setuid(nobody_else) == 0 ? f() : std::string{"cannot"}; }}.result();
}

int another_user() {
  if (::geteuid() != 0) return errno = EPERM, not_run("only root becomes another user");
  if (as_another([] { return std::string{"can"}; }) != "can") return not_run("this root may not become another user");
  using namespace kolo::detail::launch;
  using kolo::detail::os::descriptor;
  kolo::detail::shm::shared_mapping memory;
  const auto taken = as_another(
      [&] { return words_of([&] { kolo::detail::shm::shared_mapping stolen{descriptor{::dup(memory.fd())}}; }); });
  const auto path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.fd());
  const auto opened = as_another([&] { return std::string{::open(path.c_str(), O_RDWR) < 0 ? "refused" : "opened"}; });

  const auto name = "kolo/limits/" + std::to_string(::getpid());
  const auto meet = [&](int rank, std::chrono::milliseconds backoff) {
    return words_of([&] {
      rendezvous({.rank = rank, .size = 2, .name = name, .timeout = backoff, .terms = {}},
                 [](kolo::detail::shm::shared_mapping& m, const auto&) { return m.reserve(1); });
    });
  };
  wire holds, done;
  child squatter{[&] {
    const auto listener = ::setuid(nobody_else) == 0 ? listen_at(name) : descriptor{};
    const auto decoy = listen_at(further_place(name));
    holds.say("!");
    done.hear();
    return std::string{};
  }};
  holds.hear();
  const auto both = [&] { return in_children(2, [&](int rank) { return meet(rank, std::chrono::seconds{20}); }); };
  const auto squatted = both();
  done.say("!");
  squatter.result();
  const auto flooded = [&](auto f) {
    std::vector<child> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([&] {
        if (::setuid(nobody_else) != 0) return std::string{"cannot"};
        holds.say("!");
        for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
             std::chrono::steady_clock::now() < until;)
          connect_to(name);
        return std::string{};
      });
    holds.hear(4);
    auto said = f();
    for (child& c : all) c.kill();
    return said;
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto alone = flooded([&] { return meet(0, std::chrono::milliseconds{500}); });
  const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::seconds{5};
  const auto in_a_flood = flooded(both);
  child other_user{
      [&] { return ::setuid(nobody_else) == 0 ? meet(1, std::chrono::milliseconds{200}) : std::string{"cannot"}; }};
  const auto waited = meet(0, std::chrono::milliseconds{600});
  other_user.result();
  return expect(taken.find("the shared segment belongs to user 0, not to user 65534") != std::string::npos,
                "another user's segment: " + taken) +
         expect(opened == "refused", "another user opens the segment: " + opened) +
         expect(squatted == std::vector<std::string>(2),
                "a socket name that another user has bound: " + squatted[0] + squatted[1]) +
         expect(alone.find("rank 1 did not come") != std::string::npos && in_time,
                "while another user connects without end, after the deadline: " + alone) +
         expect(in_a_flood == std::vector<std::string>(2),
                "ranks while another user connects without end: " + in_a_flood[0] + in_a_flood[1]) +
         expect(waited.find("rank 1 did not come") != std::string::npos, "another user joins as rank 1: " + waited);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which == "small_dev_shm") return small_dev_shm();
  if (which == "no_memfd") return no_memfd();
  if (which == "ptrace_denied") return ptrace_denied();
  if (which == "one_cpu") return one_cpu();
  if (which == "cores") return cores();
  if (which == "cpu_quota") return cpu_quota();
  if (which == "another_user") return another_user();
  if (which == "fences") return fences();
  if (which == "pid_namespace") return pid_namespace();
  return 2;
}
