// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts ranks as processes by fork, waits for all of them, and reports those that failed.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/own_process.hpp>
#include <kolo/core/text.hpp>
#include <kolo/os/descriptor.hpp>
#include <kolo/os/other_threads.hpp>
#include <kolo/shm/mapping.hpp>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::launch {

/// What a child leaves for its parent, in memory that both see. A child that does not end by the end of its body leaves
/// it unchanged.
struct exit_report {
  enum : std::int32_t { none, returned, threw } how = none;
  std::int32_t status = 0;
  std::int32_t consequence = 0;  // 1: it failed because another rank did
  std::int64_t time = 0;
  fixed_text<2000> what;
};

struct child_process {
  pid_t pid = -1;
  os::descriptor handle;  // a pidfd, if the kernel has them
  bool ended = false;
  int wait_status = -1;  // -1: another wait took it, or the program ignores SIGCHLD
  exit_report* report = nullptr;

  bool abnormal() const { return report->how != exit_report::returned; }
  bool failed() const { return abnormal() || report->status != 0; }
};

inline std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

[[gnu::cold, gnu::noinline]] inline void report_exception(exit_report& report, const char* what,
                                                          const failure* cause = nullptr) {
  report.what = std::string_view{what};
  report.consequence = cause != nullptr && (cause->code == errc::peer_died || cause->code == errc::peer_failed ||
                                            cause->code == errc::peer_left);
  report.time = now_ns();
  report.how = exit_report::threw;
}

/// The body of a child process: it ends with its parent, and never returns into the parent's program.
[[noreturn, gnu::cold]] inline void run_child(pid_t parent, exit_report& report, int (*body)(void*, int), void* context,
                                              int rank) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (const pid_t now = ::getppid(); now != parent && now != 0)
    ::_exit(1);  // the parent ended before that took hold; 0: not visible
  const core::own_process rank_itself;
  exit_report of_nobody;
  const auto mine = [&]() -> exit_report& {
    return rank_itself.is_this() ? report : of_nobody;  // a copy by fork is not the rank
  };
  int status = 1;
  try {
    status = body(context, rank);
    if (status != 0) status = (status & 0xff) == 0 ? 1 : status & 0xff;  // what fits into an exit status
    mine().status = status;
    mine().time = now_ns();
    mine().how = exit_report::returned;
  } catch (const error& e) {
    report_exception(mine(), e.what(), &e.cause());
  } catch (const std::exception& e) {
    report_exception(mine(), e.what());
  } catch (...) {
    report_exception(mine(), "an exception that is not a std::exception");
  }
  std::fflush(nullptr);
  ::_exit(status);
}

/// Kills and reaps all children that still run when the parent cannot continue.
struct child_reaper {
  core::dynarray<child_process> children;

  ~child_reaper() {
    for (child_process& c : children)
      if (c.pid > 0 && !c.ended) ::kill(c.pid, SIGKILL);
    for (child_process& c : children) {
      if (c.pid <= 0 || c.ended) continue;
      while (::waitpid(c.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
};

/// Sleeps until a child has ended. If one has no pidfd, or there are more than poll may watch, polls every two
/// milliseconds.
inline void await_some_end(const core::dynarray<child_process>& children) {
  const core::dynarray<pollfd> handles(children.size());
  int grace_ms = -1;
  for (std::size_t i = 0; i < children.size(); ++i) {
    handles[i] = {children[i].handle.get(), POLLIN, 0};  // -1, which poll ignores: it has ended, or has none
    if (!children[i].ended && !children[i].handle) grace_ms = 2;
  }
  if (::poll(handles.begin(), handles.size(), grace_ms) < 0 && errno != EINTR) ::poll(nullptr, 0, 2);
}

/// Waits for this child only, so that other children of the program stay the program's.
[[gnu::cold, gnu::noinline]] inline bool has_ended(child_process& c) {
  int status = 0;
  const pid_t answer = ::waitpid(c.pid, &status, WNOHANG);
  if (answer == 0 || (answer < 0 && errno == EINTR)) return false;
  c.ended = true;
  c.handle = {};
  c.wait_status = answer == c.pid ? status : -1;
  if (c.report->how == exit_report::none) c.report->time = now_ns();
  return true;
}

[[gnu::cold, gnu::noinline]] inline int exit_status(const child_process& c) {
  if (c.report->how == exit_report::returned) return c.report->status;
  if (c.wait_status != -1 && WIFSIGNALED(c.wait_status)) return 128 + WTERMSIG(c.wait_status);
  const int status = c.wait_status != -1 && WIFEXITED(c.wait_status) ? WEXITSTATUS(c.wait_status) : 1;
  return status == 0 ? 1 : status;
}

[[gnu::cold, gnu::noinline]] inline std::string failure_line(const child_process& c, int rank) {
  const int status = c.wait_status;
  if (c.report->how == exit_report::returned)
    return core::text_of({"kolo: rank ", rank, " exited with status ", c.report->status, "\n"});
  if (c.report->how != exit_report::threw) {
    if (status == -1) return core::text_of({"kolo: rank ", rank, " ended, and somebody else took its exit status\n"});
    if (WIFSIGNALED(status))
      return core::text_of({"kolo: rank ", rank, " was killed by signal ", WTERMSIG(status), " (",
                            ::strsignal(WTERMSIG(status)), ")\n"});
    return core::text_of(
        {"kolo: rank ", rank, " exited with status ", WEXITSTATUS(status), " before its function returned\n"});
  }
  std::string_view what = c.report->what;
  if (what.starts_with("kolo: ")) what.remove_prefix(6);
  std::string line =
      core::text_of({"kolo: rank ", rank, c.report->consequence != 0 ? " could not go on: " : ": ", what});
  for (char& each : line)
    if (each == '\n') each = ' ';
  core::append_words(line, {"\n"});
  return line;
}

/// Writes one line per failed rank to standard error, first cause first. Returns the exit status of that first cause,
/// or 0 if none failed, or if the others `recovered` without those that did.
[[gnu::cold, gnu::noinline]] inline int report_failures(const core::dynarray<child_process>& children, bool recovered) {
  const core::dynarray<int> failed(children.size());
  std::size_t count = 0;
  for (std::size_t r = 0; r < children.size(); ++r)
    if (children[r].failed()) failed[count++] = int(r);
  const auto is_before = [&](int a, int b) {
    const exit_report &x = *children[std::size_t(a)].report, &y = *children[std::size_t(b)].report;
    return x.consequence != y.consequence ? x.consequence < y.consequence : x.time < y.time;
  };
  for (std::size_t i = 1; i < count; ++i)  // by insertion: a few, and std::stable_sort compiles slowly
    for (std::size_t k = i; k > 0 && is_before(failed[k], failed[k - 1]); --k) std::swap(failed[k], failed[k - 1]);
  for (std::size_t i = 0; i < count; ++i)
    std::fputs(failure_line(children[std::size_t(failed[i])], failed[i]).c_str(), stderr);
  return count == 0 || recovered ? 0 : exit_status(children[std::size_t(failed[0])]);
}

/// Runs body(context, r) for r = 0 ... ranks - 1, at least one, each in a process of its own, and waits for all.
///
/// Returns 0 if every body returned 0; otherwise writes one line per failed rank to standard error, and returns the
/// first one's exit status: what its body returned, 1 for an exception, 128 + n for signal n. on_death(context, r) is
/// called, here, as soon as rank r has ended in any other way than by returning. recovered(context, r) is called at the
/// end for each rank whose body returned: if it is true for all whose body returned 0, and there is one, and for no
/// other, the result is 0: they have continued without the ranks that failed. The ranks end with the calling thread,
/// however that ends.
/// Errors  invalid_argument: other threads run (see other_threads.hpp); out_of_resources.
[[gnu::cold, gnu::noinline]] inline int spawn(
    int ranks, int (*body)(void*, int), void* context, void (*on_death)(void*, int),
    bool (*recovered)(void*, int) = [](void*, int) { return false; }) {
  os::be_the_only_thread("launch");
  const auto count = std::size_t(ranks);
  const auto shared = shm::map_pages(shm::whole_pages(count * sizeof(exit_report)), MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const report = reinterpret_cast<exit_report*>(shared.get());
  std::uninitialized_value_construct_n(report, count);

  child_reaper all{core::dynarray<child_process>(count)};
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // or the children would write it again
  for (int r = 0; r < ranks; ++r) {
    child_process& c = all.children[std::size_t(r)];
    c.report = report + r;
    c.pid = ::fork();
    if (c.pid == 0) run_child(parent, *c.report, body, context, r);
    if (c.pid < 0) {
      const std::string why = std::generic_category().message(errno);
      core::throw_error(errc::out_of_resources, {"rank ", r, " of ", ranks, " was not started: ", why});
    }
  }
  for (child_process& c : all.children) c.handle = os::descriptor{int(::syscall(SYS_pidfd_open, c.pid, 0))};

  for (std::size_t running = count;;) {
    for (int r = 0; r < ranks; ++r) {
      child_process& c = all.children[std::size_t(r)];
      if (c.ended || !has_ended(c)) continue;
      --running;
      if (c.abnormal()) on_death(context, r);
    }
    if (running == 0) break;
    await_some_end(all.children);
  }
  int well = 0, recovered_count = 0;
  bool one_objects = false;  // whether a rank has recovered too, and reports a failure
  for (int r = 0; r < ranks; ++r) {
    const child_process& c = all.children[std::size_t(r)];
    const bool goes_on = !c.abnormal() && recovered(context, r);
    if (c.failed()) one_objects |= goes_on;
    else ++well, recovered_count += goes_on ? 1 : 0;
  }
  return report_failures(all.children, well > 0 && recovered_count == well && !one_objects);
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
