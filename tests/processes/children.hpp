// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Child processes for tests: each returns a string, which the parent checks.
#pragma once

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/callable_ref.hpp"

namespace testing {

/// A pipe to another process. `hear` returns at its end when all writers have closed it.
class wire {
 public:
  wire() {
    if (::pipe(ends_) != 0) std::abort();
  }
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;
  ~wire() { close_reader(), close_writer(); }

  void say(const std::string& text) const {
    for (std::size_t done = 0; done < text.size();) {
      const auto n = ::write(ends_[1], text.data() + done, text.size() - done);
      if (n > 0) done += static_cast<std::size_t>(n);
      if (n < 0 && errno != EINTR) std::abort();
    }
  }
  /// Reads that many characters; fewer at the end of the pipe, or after 30 seconds without any.
  std::string hear(std::size_t characters = 1) const {
    std::string text;
    while (text.size() < characters && readable()) {
      char part[4096];
      const auto n = ::read(ends_[0], part, std::min(sizeof part, characters - text.size()));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      text.append(part, static_cast<std::size_t>(n));
    }
    return text;
  }
  bool ended() const { return readable() && hear().empty(); }
  void close_reader() { close_end(0); }
  void close_writer() { close_end(1); }

 private:
  bool readable() const {
    pollfd watched{ends_[0], POLLIN, 0};
    int ready;
    do ready = ::poll(&watched, 1, 30'000);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
  }
  void close_end(int i) {
    if (ends_[i] >= 0) ::close(ends_[i]);
    ends_[i] = -1;
  }
  int ends_[2];
};

/// A process that runs f() and returns f's string, "threw: ..." or "signal n".
class child {
 public:
  template <class F>
  explicit child(F&& f) {
    start([&](std::string& said) { said = f(); });
  }
  child(child&&) = default;
  child& operator=(child&&) = delete;
  ~child() {
    if (answer_) kill(), reap();
  }

  pid_t pid() const { return pid_; }
  void kill(int signal = SIGKILL) const { ::kill(pid_, signal); }
  void await_end() const {  // the process stays a zombie
    siginfo_t info;
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
  }
  std::string result() {
    std::string said = answer_->hear(std::size_t{1} << 24);
    const int status = reap();
    return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : said;
  }

 private:
  void start(callable_ref<std::string&> f) {
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) {
      answer_->close_writer();
      return;
    }
    answer_->close_reader();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int s : {SIGINT, SIGILL, SIGABRT, SIGFPE, SIGSEGV, SIGTERM})
      ::signal(s, SIG_DFL);  // not the test program's handlers
    std::string said;
    try {
      f(said);
    } catch (const std::exception& e) {
      said = std::string{"threw: "} + e.what();
    }
    answer_->say(said);
    ::_exit(0);
  }
  int reap() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    answer_.reset();
    return status;
  }
  std::unique_ptr<wire> answer_ = std::make_unique<wire>();
  pid_t pid_ = -1;
};

/// Runs f(0) ... f(n - 1) at the same time, each in its own process.
template <class F>
std::vector<std::string> in_children(int n, F f) {
  std::vector<child> all;
  for (int i = 0; i < n; ++i) all.emplace_back([&f, i] { return f(i); });
  std::vector<std::string> said;
  for (child& c : all) said.push_back(c.result());
  return said;
}

/// Runs f in a child process. Returns f's result and then what was written to standard error.
template <class F>
std::string with_standard_error(F f) {
  return child{[&f] {
           const int file = ::memfd_create("stderr", 0);
           ::dup2(file, 2);
           std::string said = std::to_string(f()) + '\n';
           char part[4096];
           ::lseek(file, 0, SEEK_SET);
           for (ssize_t n; (n = ::read(file, part, sizeof part)) > 0;) said.append(part, static_cast<std::size_t>(n));
           return said;
         }}
      .result();
}

/// From now on that system call returns `error` in this process and its children.
inline bool forbid(long call, int error) {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

inline std::set<std::string> files_in(const char* directory) {
  std::set<std::string> names;
  if (DIR* const d = ::opendir(directory)) {
    while (const dirent* const entry = ::readdir(d)) names.insert(entry->d_name);
    ::closedir(d);
  }
  return names;
}

/// Whether all files that appeared in /dev/shm since `before` are gone. Other programs remove theirs by themselves, so this waits up to a minute.
inline bool nothing_stays_in_dev_shm(const std::set<std::string>& before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  for (auto still = files_in("/dev/shm");; std::this_thread::sleep_for(std::chrono::milliseconds{1})) {
    const auto now = files_in("/dev/shm");
    std::erase_if(still, [&](const std::string& name) { return before.contains(name) || !now.contains(name); });
    if (still.empty()) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
}

}  // namespace testing
