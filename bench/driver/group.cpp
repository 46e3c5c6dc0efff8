// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts, commands and ends the ranks of one implementation.
#include "group.hpp"

#include "../clock.hpp"
#include "../meeting_page.hpp"
#include "statistics.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <thread>

namespace kolo_bench {

namespace {

using namespace std::chrono_literals;

int milliseconds_until(std::chrono::steady_clock::time_point t) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(t - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

/// False after the deadline.
bool readable(int fd, std::chrono::steady_clock::time_point until) {
  pollfd p{fd, POLLIN, 0};
  int n;
  do n = ::poll(&p, 1, milliseconds_until(until));
  while (n < 0 && errno == EINTR);
  return n > 0;
}

struct listener {
  std::string name;
  int socket;
  explicit listener(std::string n, int ranks)
      : name{std::move(n)}, socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    const auto [address, length] = abstract_address(name);
    if (socket < 0 || ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        ::listen(socket, ranks) != 0)
      throw group_error{"a socket for the ranks cannot be made"};
  }
  listener(const listener&) = delete;
  ~listener() { ::close(socket); }
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& w : words) all.push_back(w.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

bool is_oversubscribed(int ranks) { return ranks > static_cast<int>(cores().size()); }

std::string settings_of(const recipe& r, int ranks) {
  std::string all;
  for (const auto& s : r.environment) all += s + ' ';
  if (is_oversubscribed(ranks))
    for (const auto& s : r.oversubscribed_environment) all += s + ' ';
  for (const auto& word : r.command) all += word.substr(word.rfind('/') + 1) + ' ';
  all.pop_back();
  return all;
}

group::group(const recipe& r, int ranks, std::chrono::seconds backoff)
    : name_{r.name}, ranks_{ranks}, members_(static_cast<std::size_t>(ranks)) {
  static int started = 0;
  const listener here{"kolo_bench." + std::to_string(::getpid()) + '.' + std::to_string(++started), ranks};
  page_ = ::memfd_create("kolo_bench_page", MFD_CLOEXEC);
  if (page_ < 0 || ::ftruncate(page_, static_cast<off_t>(meeting_page::bytes)) != 0)
    throw group_error{"there is no memory for the ranks' meeting page"};
  start(r, here.name);
  gather_members(here.socket, std::chrono::steady_clock::now() + backoff);
  measure_overhead(backoff);
}

void group::start(const recipe& r, const std::string& socket_name) {
  auto words = r.command;
  for (auto& word : words)
    if (word == "RANKS") word = std::to_string(ranks_);
  auto own = r.environment;
  if (is_oversubscribed(ranks_))
    own.insert(own.end(), r.oversubscribed_environment.begin(), r.oversubscribed_environment.end());
  own.push_back(std::string{socket_variable} + '=' + socket_name);
  own.push_back(std::string{page_variable} + "=/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(page_));
  auto arguments = pointers(words), settings = pointers(own);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) throw group_error{name_ + " cannot be started"};
  if (child_ > 0) return;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  settings.pop_back();
  for (char* s : settings) ::putenv(s);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  ::dup2(2, 1);  // the launcher's output belongs in the log
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

void group::gather_members(int listening, deadline until) {
  for (int come = 0; come < ranks_; ++come) {
    while (!readable(listening, std::min(until, std::chrono::steady_clock::now() + 100ms))) {
      if (::waitpid(child_, nullptr, WNOHANG) == child_) {
        child_ = 0;
        give_up("ended while it started; see its output above");
      }
      if (std::chrono::steady_clock::now() > until)
        give_up(std::to_string(come) + " of " + std::to_string(ranks_) + " ranks have connected before the timeout");
    }
    const int socket = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    hello h{};
    if (!readable(socket, until) || !read_all(socket, &h, sizeof(h)) || h.size != ranks_ || h.rank < 0 ||
        h.rank >= ranks_)
      give_up("a rank sent a wrong greeting");
    std::string offers(h.offers_bytes, '\0');
    if (!read_all(socket, offers.data(), offers.size())) give_up("rank " + std::to_string(h.rank) + " has gone");
    members_[static_cast<std::size_t>(h.rank)] = {socket, static_cast<int>(::syscall(SYS_pidfd_open, h.pid, 0))};
    if (h.rank != 0) continue;
    version_ = h.version.str();
    std::istringstream lines{offers};
    for (std::string line; std::getline(lines, line);) offers_.push_back(line);
  }
}

/// The time of an empty window. Unknown if it is longer than reading a clock can take: then ranks waited for a core.
void group::measure_overhead(std::chrono::seconds backoff) {
  command nothing{};
  nothing.collective = "nothing";
  nothing.iterations = 200;
  nothing.batch = 1;
  const double least = quantile(run(nothing, backoff).times, 0.25);
  if (least < 300) overhead_ = least;
}

void group::receive(std::size_t rank, void* to, std::size_t bytes, deadline until) {
  const int socket = members_[rank].socket;
  const auto who = "rank " + std::to_string(rank);
  if (!readable(socket, until)) give_up(who + " has not answered in time");
  if (!read_all(socket, to, bytes)) give_up(who + " has died");
}

burst group::run(const command& c, std::chrono::seconds backoff) {
  if (members_.empty()) throw group_error{name_ + " has failed before"};
  const auto until = std::chrono::steady_clock::now() + backoff;
  for (std::size_t r = 0; r < members_.size(); ++r)
    if (!write_all(members_[r].socket, &c, sizeof(c))) give_up("rank " + std::to_string(r) + " has died");
  burst all;
  std::vector<double> times;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    answer a{};
    receive(r, &a, sizeof(a), until);
    times.resize(a.count);
    if (a.count > 0) receive(r, times.data(), times.size() * sizeof(double), until);
    if (a.what == outcome::failed) give_up("rank " + std::to_string(r) + ": " + a.sentence.str());
    if (a.what != outcome::done && all.what == outcome::done) all = {a.what, a.sentence.str(), {}};
    if (all.times.size() < times.size()) all.times.resize(times.size());
    for (std::size_t i = 0; i < times.size(); ++i) all.times[i] = std::max(all.times[i], times[i]);
  }
  for (auto& t : all.times) t = std::max(t - overhead_, 0.1) / std::max(c.batch, 1);
  return all;
}

void group::give_up(const std::string& sentence) {
  for (auto& m : members_) {
    if (m.process >= 0) ::syscall(SYS_pidfd_send_signal, m.process, SIGKILL, nullptr, 0);
    for (const int fd : {m.process, m.socket})
      if (fd >= 0) ::close(fd);
  }
  members_.clear();
  wait_for_exit(2s);
  throw group_error{name_ + " with " + std::to_string(ranks_) + " ranks: " + sentence};
}

/// The ranks end when the driver closes their sockets; those that do not are killed.
void group::wait_for_exit(std::chrono::seconds backoff) {
  const auto until = std::chrono::steady_clock::now() + backoff;
  while (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(-child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(5ms);
  }
  child_ = 0;
}

group::~group() {
  for (auto& m : members_)
    if (m.socket >= 0) ::close(m.socket);
  wait_for_exit(10s);
  for (auto& m : members_)
    if (m.process >= 0) ::close(m.process);
  if (page_ >= 0) ::close(page_);
}

}  // namespace kolo_bench
