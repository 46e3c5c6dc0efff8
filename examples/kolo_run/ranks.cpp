// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One poll loop: a signalfd reports ends of ranks and signals to forward; pipes carry the output of ranks.
#include "ranks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using steady = std::chrono::steady_clock;
constexpr int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
constexpr auto grace = std::chrono::seconds{5};

/// One of the two output streams of a rank, forwarded line by line.
struct stream {
  int from = -1;  // the pipe; -1: closed
  int to = 1;
  std::string line{};
};

struct rank_process {
  pid_t pid = -1;
  bool ended = false;
  stream streams[2]{{-1, 1}, {-1, 2}};
};

class job {
 public:
  explicit job(const settings& s) : settings_{s}, name_{"kolo-run." + std::to_string(::getpid())} {
    const char* const outer = std::getenv("KOLO_JOB");  // set if a rank of another job has started this one
    if (outer != nullptr) name_ = std::string{outer} + '/' + name_;
  }

  int run() {
    open_standard_files();
    watch_signals();
    ranks_.resize(static_cast<std::size_t>(settings_.ranks));
    for (int r = 0; r < settings_.ranks && !could_not_start_; ++r) start(r);
    if (could_not_start_) kill_all(SIGKILL);
    while (running_ > 0) wait();
    kill_all(SIGKILL);  // processes that ranks have left in their groups; their output so far is still read
    for (int tries = 0; tries < 64 && is_open(); ++tries) wait();
    close_all();
    return status_;
  }

 private:
  /// A closed one's number would be that of another file, to which output would go.
  static void open_standard_files() {
    int last = 0;
    while (last >= 0 && last <= 2) last = ::open("/dev/null", O_RDWR);
    if (last > 2) ::close(last);
  }
  void watch_signals() {
    ::signal(SIGCHLD, SIG_DFL);  // a parent may have set SIG_IGN, which would hide the ends of ranks
    sigset_t watched;
    ::sigemptyset(&watched);
    ::sigaddset(&watched, SIGCHLD);
    for (const int n : forwarded) ::sigaddset(&watched, n);
    ::sigprocmask(SIG_BLOCK, &watched, &before_);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void start(int r) {
    rank_process& rank = ranks_[static_cast<std::size_t>(r)];
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    for (auto& p : pipes)
      if (settings_.prefix && ::pipe2(p, O_CLOEXEC) != 0) return give_up(r);
    const pid_t parent = ::getpid();
    rank.pid = ::fork();
    if (rank.pid < 0) return give_up(r);
    if (rank.pid == 0) become(r, parent, pipes);
    ::setpgid(rank.pid, rank.pid);
    ++running_;
    for (int i = 0; i < 2 && settings_.prefix; ++i) {
      ::close(pipes[i][1]);
      ::fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
      rank.streams[i].from = pipes[i][0];
    }
  }

  [[noreturn]] void become(int r, pid_t parent, int (&pipes)[2][2]) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(cannot_start);
    ::setpgid(0, 0);
    read_no_terminal();
    for (int i = 0; i < 2 && settings_.prefix; ++i) ::dup2(pipes[i][1], i + 1);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    const std::string rank = std::to_string(r), size = std::to_string(settings_.ranks);
    for (const auto& [name, value] : {std::pair{"KOLO_RANK", rank},
                                      {"KOLO_SIZE", size},
                                      {"KOLO_LOCAL_RANK", rank},
                                      {"KOLO_LOCAL_SIZE", size},
                                      {"KOLO_JOB", name_}})
      ::setenv(name, value.c_str(), 1);
    for (const char* const name : {"KOLO_NODE_RANK", "KOLO_NODE_COUNT"})
      ::unsetenv(name);  // all ranks are on this host
    std::vector<char*> arguments;
    for (const std::string& word : settings_.command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    const int why = errno;
    if (r == 0) std::fprintf(stderr, "kolo-run: %s: %s\n", arguments[0], std::strerror(why));
    ::_exit(why == ENOENT ? 127 : 126);
  }

  /// A rank is a background process: reading from a terminal would stop it by SIGTTIN.
  static void read_no_terminal() {
    if (::isatty(0) == 0) return;
    if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0) ::dup2(nothing, 0), ::close(nothing);
  }

  void give_up(int r) {
    std::fprintf(stderr, "kolo-run: rank %d of %d could not be started: %s\n", r, settings_.ranks,
                 std::strerror(errno));
    could_not_start_ = true;
    status_ = cannot_start;
  }

  bool is_open() const {
    for (const rank_process& rank : ranks_)
      for (const stream& s : rank.streams)
        if (s.from >= 0) return true;
    return false;
  }

  /// Waits for an event, and handles it.
  void wait() {
    std::vector<pollfd> handles{{signals_, POLLIN, 0}};
    std::vector<std::pair<int, stream*>> which{{-1, nullptr}};
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (stream& s : ranks_[r].streams)
        if (s.from >= 0) {
          handles.push_back({s.from, POLLIN, 0});
          which.emplace_back(static_cast<int>(r), &s);
        }
    const bool may_end =
        running_ == 0;  // pipes are held by processes that are no ranks: reads what is there, does not wait
    const int timeout = may_end ? 0 : is_ending_ ? milliseconds_left() : -1;
    const int ready = ::poll(handles.data(), handles.size(), timeout);
    for (std::size_t i = 1; ready > 0 && i < handles.size(); ++i)
      if (handles[i].revents != 0) forward(which[i].first, *which[i].second);
    if (ready > 0 && handles[0].revents != 0) take_signals();
    if (ready == 0 && may_end) close_all();
    if (is_ending_ && milliseconds_left() == 0) kill_all(SIGKILL);
  }

  int milliseconds_left() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - steady::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
  }

  void take_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      if (const int n = static_cast<int>(info.ssi_signo); n != SIGCHLD) kill_all(n);
    // Ranks are not reaped, so that their process ids are not reused before the last signal to their groups.
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      siginfo_t how{};
      if (ranks_[r].pid <= 0 || ranks_[r].ended) continue;
      const int found = ::waitid(P_PID, static_cast<id_t>(ranks_[r].pid), &how, WEXITED | WNOHANG | WNOWAIT);
      if (found == 0 && how.si_pid != 0) end(static_cast<int>(r), how.si_status, how.si_code != CLD_EXITED);
    }
    if (::getpid() == 1) reap_orphans();
  }

  /// As process 1 of a container, this is the parent of processes that ranks have left. (Not if the kernel does not list
  /// children.)
  void reap_orphans() const {
    std::ifstream children{"/proc/self/task/1/children"};
    for (pid_t pid = 0; children >> pid;)
      if (std::none_of(ranks_.begin(), ranks_.end(), [&](const rank_process& rank) { return rank.pid == pid; }))
        ::waitpid(pid, nullptr, WNOHANG);
  }

  void end(int r, int status, bool is_signal) {
    ranks_[static_cast<std::size_t>(r)].ended = true;
    --running_;
    const int result = is_signal ? 128 + status : status;
    if (result == 0) return;
    const bool ends_others = status_ == 0 && settings_.kill_on_failure && running_ > 0;
    if (status_ == 0) status_ = result;
    if (ends_others) {  // before the messages, which may have to wait for their reader
      is_ending_ = true;
      deadline_ = steady::now() + grace;
      kill_all(SIGTERM);
    }
    std::string text = "kolo-run: rank " + std::to_string(r);
    if (is_signal) text += " was killed by signal " + std::to_string(status) + " (" + ::strsignal(status) + ")\n";
    else text += " exited with status " + std::to_string(result) + '\n';
    if (ends_others) text += "kolo-run: terminating the other ranks (--kill-on-failure)\n";
    write_all(2, text);
  }

  /// Sends the signal to every rank's process group; SIGKILL also to those of ended ranks, whose children may still run.
  void kill_all(int signal) {
    for (const rank_process& rank : ranks_)
      if (rank.pid > 0 && (!rank.ended || signal == SIGKILL)) ::kill(-rank.pid, signal);
    if (signal == SIGKILL) is_ending_ = false;
  }

  /// Handles signals and ends of ranks while the reader is slow: writes what a pipe has room for when poll reports it,
  /// whole lines if possible.
  void write_all(int to, std::string_view text) {
    while (!text.empty()) {
      pollfd handles[] = {{to, POLLOUT, 0}, {signals_, POLLIN, 0}};
      const int ready = ::poll(handles, 2, is_ending_ ? milliseconds_left() : -1);
      if (ready > 0 && handles[0].revents == 0) take_signals();  // else after the text, so that nothing overtakes it
      if (is_ending_ && milliseconds_left() == 0) kill_all(SIGKILL);
      if (ready <= 0 || handles[0].revents == 0) continue;
      const std::string_view part = text.substr(0, PIPE_BUF);
      const std::size_t lines = part.rfind('\n') + 1;
      const ssize_t n = ::write(to, part.data(), lines > 0 ? lines : part.size());
      if (n < 0 && errno != EAGAIN && errno != EINTR) return;  // EAGAIN: another process has set O_NONBLOCK
      if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  void forward(int r, stream& s) {
    char part[65536];
    for (;;) {
      const ssize_t n = ::read(s.from, part, sizeof part);
      if (n > 0) s.line.append(part, static_cast<std::size_t>(n));
      else if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
      else return close(r, s);
      if (s.line.size() > 1 << 20) break;
    }
    if (s.line.size() > 1 << 20 && s.line.find('\n') == s.line.npos) s.line += '\n';  // splits longer lines
    write_lines(r, s, s.line.rfind('\n') + 1);
  }
  void write_lines(int r, stream& s, std::size_t end) {
    const std::string prefix = '[' + std::to_string(r) + "] ";
    std::string text;
    for (std::size_t first = 0; first < end;) {
      const std::size_t next = std::min(end, s.line.find('\n', first) + 1);
      text += prefix;
      text.append(s.line, first, next - first);
      first = next;
    }
    s.line.erase(0, end);
    write_all(s.to, text);
  }
  void close(int r, stream& s) {
    if (!s.line.empty() && s.line.back() != '\n') s.line += '\n';
    write_lines(r, s, s.line.size());
    ::close(s.from);
    s.from = -1;
  }
  void close_all() {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (stream& s : ranks_[r].streams)
        if (s.from >= 0) close(static_cast<int>(r), s);
  }

  const settings& settings_;
  std::string name_;
  std::vector<rank_process> ranks_;
  sigset_t before_{};
  int signals_ = -1, running_ = 0, status_ = 0;
  bool could_not_start_ = false, is_ending_ = false;
  steady::time_point deadline_{};
};

}  // namespace

int run_ranks(const settings& s) { return job{s}.run(); }
