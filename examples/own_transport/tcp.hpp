// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport for ranks on any hosts over TCP sockets. To use it in your program, copy these three headers.
#pragma once

#include "failure_channel.hpp"
#include "rendezvous.hpp"

#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tcp {

/// The options of a job; equal on all ranks.
struct options {
  std::chrono::nanoseconds timeout{std::chrono::minutes{5}};  ///< of joining, and of every operation that names none
  std::size_t piece_bytes = 256 * 1024;                       ///< see kolo::MessageTransport
  std::string job = "kolo";  ///< processes with another name are rejected. No protection: nothing is encrypted
};

/// Models kolo::MessageTransport: a connection to every other rank; the kernel's socket buffers move data while a rank combines.
///
/// * The end of a rank's process is detected at once, by the end of its connections; that of a host within half a minute.
/// * Ranks with the same IP address are on the same node.
/// * After a failure nothing is sent or received any more, so the caller may reuse all memory.
/// * A forked child of a rank holds copies of its connections: while the child runs, the rank's death is not detected.
class transport {
 public:
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  };
  struct ticket {
    int peer = 0;
    bool is_incoming = false;
    std::uint64_t number = 0;  ///< among those to or from its peer
  };

  /// Collective over `size` ranks: rank 0 listens at `address`, "host:port" or "[host]:port", or uses `listener`; the
  /// others connect to it.
  transport(const std::string& address, int rank, int size, const tcp::options& o = {}, socket listener = socket{})
      : options_{o}, rank_{rank} {
    if (size < 1 || size > 128 || rank < 0 || rank >= size) refuse("there are 1 to 128 ranks, from 0 on");
    if (o.timeout.count() <= 0) refuse("the deadline must be greater than 0");
    rendezvous m{hello_message(size), o.timeout, [] {}};
    if (rank > 0) m.join(address);
    else if (size > 1) m.host(listener ? std::move(listener) : listen_at(address));
    begin_with(std::move(m));
  }
  transport(transport&&) noexcept = default;
  transport& operator=(transport&&) = delete;
  ~transport() { leave(); }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(lines_.size()); }
  kolo::placement place() const { return place_; }
  std::chrono::nanoseconds timeout() const { return options_.timeout; }
  std::size_t piece_bytes() const { return options_.piece_bytes; }

  const failure* failed() const { return failures_.failed(); }
  const failure& fail(const failure& f) {
    failures_.fail(f);
    drop_all();
    return *failed();
  }

  void relax(kolo::backoff& p, const kolo::wait_context& s) {
    if (++p.polls < spins_) return;
    check(p, s);
    sleep(p, s);
  }
  void check(kolo::backoff& p, const kolo::wait_context& s) {
    throw_if_failed();
    const auto now = clock::now();
    const auto waited = p.waited(now);
    for (int r = 0; r < size(); ++r) {
      if (!is_lost(r, s.peer, now)) continue;
      if (!failures_.has_left(r)) give_up(errc::peer_died, p, s, r, " died");
      give_up(errc::peer_left, p, s, r, " has destroyed its communicator, and is still waited for");
    }
    if (waited <= s.timeout) return;
    give_up(errc::timeout, p, s, s.peer, " is late: it has not done its part" + within(s.timeout));
  }

  /// Reports a failure to a rank whose operation would complete without waiting, too.
  void begin(const options&) { throw_if_failed(); }

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return {peer, false, post(to(peer).out, const_cast<std::byte*>(data), {tag, bytes})};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    return {peer, true, post(to(peer).in, data, {tag, bytes})};
  }
  /// Adds a run of memory to the next message; the kernel gathers and scatters the runs.
  void add_run(const std::byte* data, std::size_t bytes) { runs_.push_back({const_cast<std::byte*>(data), bytes}); }
  std::size_t shortest_run() const { return 512; }
  void submit() {
    for (line& l : lines_) push(l);
  }
  bool done(const ticket& t) {
    const queue& q = t.is_incoming ? to(t.peer).in : to(t.peer).out;
    if (t.number < q.finished) return true;
    for (int r = 0; r < size(); ++r) push(to(r)), pull(r);
    return t.number < q.finished;
  }

  /// All ranks exchange color, key and listening address through rank 0; then each group has a rendezvous of its own.
  transport split(int color, int key) {
    throw_if_failed();
    ++splits_;
    kolo::backoff p;
    p.since = clock::now();
    socket listener = size() > 1 ? listen_at(host_ + ":0") : socket{};
    const auto all = exchange(member{color, key, endpoint_of(listener)}, p);
    std::vector<int> group;
    const auto at = [&](int r) -> const member& { return all[static_cast<std::size_t>(r)]; };
    for (int r = 0; r < size(); ++r)
      if (at(r).color == color) group.push_back(r);
    std::stable_sort(group.begin(), group.end(), [&](int a, int b) { return at(a).key < at(b).key; });

    transport part{options_, static_cast<int>(std::find(group.begin(), group.end(), rank_) - group.begin())};
    part.options_.job += '/' + std::to_string(splits_) + '/' + std::to_string(color);
    const kolo::wait_context s{.operation = "split",
                               .timeout = std::chrono::hours{1 << 20}};  // the rendezvous has its own
    try {
      const auto left = options_.timeout - (clock::now() - p.since);
      rendezvous m{part.hello_message(static_cast<int>(group.size())), left, [&] { check(p, s); }};
      for (std::size_t i = 0; i < group.size(); ++i) m.endpoints[i] = at(group[i]).at;
      if (group.size() > 1) m.open(std::move(listener)), m.meet(0);
      part.begin_with(std::move(m));
    } catch (const error& e) {
      if (failed()) throw;
      failure f = e.cause();  // reported to all ranks of this communicator, with its rank numbers
      f.rank = rank_;
      if (f.peer >= 0) f.peer = group[static_cast<std::size_t>(f.peer)];
      throw error{fail(f)};
    }
    return part;
  }

 private:
  struct head {
    std::uint64_t tag = 0, bytes = 0;
    bool operator==(const head&) const = default;
  };
  struct message {
    head posted{}, on_wire{};    ///< on_wire of an incoming message is the sender's
    std::vector<iovec> parts{};  ///< the head, then the runs
    std::size_t next = 0;        ///< the first part that is not completely moved
  };
  struct queue {
    std::deque<message> waiting{};
    std::uint64_t finished = 0;
  };
  struct line {
    socket data{};
    queue out{}, in{};
    bool cannot_send = false, has_ended = false;
    clock::time_point lost{};  ///< when one of its connections was first seen to have ended
  };
  struct member {
    int color, key;
    tcp::endpoint at;
  };
  static constexpr std::uint64_t split_tag = ~std::uint64_t{0};  // used by no collective
  static constexpr std::chrono::microseconds longest_nap{2000};

  explicit transport(const tcp::options& o, int rank) : options_{o}, rank_{rank} {}
  [[noreturn]] static void refuse(const char* why) { throw error{errc::invalid_argument, why}; }

  line& to(int r) { return lines_[static_cast<std::size_t>(r)]; }

  hello hello_message(int size) const {
    hello h;
    h.job = 14695981039346656037u;  // FNV-1a
    for (const char c : options_.job) h.job = (h.job ^ static_cast<unsigned char>(c)) * 1099511628211u;
    h.piece_bytes = options_.piece_bytes, h.timeout = options_.timeout.count();
    h.size = size, h.rank = rank_;
    return h;
  }
  void begin_with(rendezvous m) {
    std::vector<socket> control_lines;
    for (link& l : m.links)
      lines_.emplace_back().data = std::move(l.data), control_lines.push_back(std::move(l.control));
    failures_ = failure_channel{rank_, std::move(control_lines)};
    std::vector<std::string> hosts, nodes;
    for (const auto& at : m.endpoints) {
      hosts.push_back(host_of(text(at)));
      if (std::find(nodes.begin(), nodes.end(), hosts.back()) == nodes.end()) nodes.push_back(hosts.back());
    }
    const auto me = hosts.begin() + rank_;
    host_ = *me;
    place_.local_rank = static_cast<int>(std::count(hosts.begin(), me, host_));
    place_.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), host_));
    place_.node_rank = static_cast<int>(std::find(nodes.begin(), nodes.end(), host_) - nodes.begin());
    place_.node_count = static_cast<int>(nodes.size());
    spins_ = static_cast<int>(std::thread::hardware_concurrency()) < place_.local_size ? 0 : 100;
  }
  /// An allgather through rank 0.
  std::vector<member> exchange(const member& mine, kolo::backoff& p) {
    std::vector<member> all(lines_.size(), mine);
    const auto move = [&](bool is_incoming, int peer, int first, int count) {
      auto* const data = reinterpret_cast<std::byte*>(&all[static_cast<std::size_t>(first)]);
      const auto bytes = static_cast<std::size_t>(count) * sizeof(member);
      const ticket t = is_incoming ? receive(peer, data, bytes, split_tag) : send(peer, data, bytes, split_tag);
      const kolo::wait_context s{.operation = "split", .peer = peer, .timeout = options_.timeout};
      for (submit(); !done(t);) kolo::relax(*this, p, s);  // operations of other communicators progress
    };
    if (rank_ > 0) move(false, 0, rank_, 1), move(true, 0, 0, size());
    for (int r = 1; rank_ == 0 && r < size(); ++r) move(true, r, r, 1);
    for (int r = 1; rank_ == 0 && r < size(); ++r) move(false, r, 0, size());
    return all;
  }

  // Messages.

  std::uint64_t post(queue& q, std::byte* data, const head& h) {
    message& m = q.waiting.emplace_back();
    m.posted = m.on_wire = h;
    m.parts.push_back({&m.on_wire, sizeof m.on_wire});
    if (runs_.empty()) m.parts.push_back({data, h.bytes});
    m.parts.insert(m.parts.end(), runs_.begin(), runs_.end());
    runs_.clear();
    return q.finished + q.waiting.size() - 1;
  }
  /// Moves a part of the message by one system call; false if nothing moved now, or (never_again) the connection has ended.
  template <class Call>
  static bool move(message& m, Call call, bool& never_again) {
    msghdr h{};
    h.msg_iov = &m.parts[m.next];
    h.msg_iovlen = std::min<std::size_t>(m.parts.size() - m.next, 1024);
    const auto moved = call(&h);
    if (moved <= 0) return never_again |= moved == 0 || !is_only_not_now(), false;
    for (auto left = static_cast<std::size_t>(moved); left > 0;) {
      iovec& part = m.parts[m.next];
      const auto n = std::min(left, part.iov_len);
      part = {static_cast<std::byte*>(part.iov_base) + n, part.iov_len - n};
      left -= n;
      if (part.iov_len == 0) ++m.next;
    }
    return true;
  }
  static void finish(queue& q) {
    q.waiting.pop_front();
    ++q.finished;
  }
  static void push(line& l) {
    while (!l.out.waiting.empty() && !l.cannot_send) {
      message& m = l.out.waiting.front();
      if (!move(
              m, [&](msghdr* h) { return ::sendmsg(l.data.get(), h, MSG_NOSIGNAL); }, l.cannot_send))
        return;
      if (m.next == m.parts.size()) finish(l.out);
    }
  }
  /// Compares the head that the sender sent with the posted one; a mismatch never writes beyond the posted buffer.
  void pull(int r) {
    line& l = to(r);
    while (!l.in.waiting.empty() && !l.has_ended) {
      message& m = l.in.waiting.front();
      if (!move(
              m, [&](msghdr* h) { return ::recvmsg(l.data.get(), h, 0); }, l.has_ended))
        return;
      if (m.next > 0 && m.on_wire != m.posted) report_mismatch(r);
      if (m.next == m.parts.size()) finish(l.in);
    }
  }
  [[noreturn]] void report_mismatch(int peer) {
    const auto text = "rank " + std::to_string(peer) +
                      " does something else: another collective, count, type, "
                      "operator, algorithm or root, now or in a call before";
    throw error{fail(kolo::failure_from({.peer = peer}, errc::mismatch, rank_, {}, text))};
  }
  void drop_all() {
    for (line& l : lines_) l.in.waiting.clear(), l.out.waiting.clear();
  }

  // Waiting.

  void throw_if_failed() {
    const failure* const first = failures_.poll();
    if (!first) return;
    drop_all();
    throw error{*first};
  }
  /// True if nothing more will come from rank r. A rank that waits for r first reads the data connection to its end,
  /// since r's last data may arrive after the end of its control connection; other ranks wait for `moment`, and
  /// ignore a rank that left in an orderly manner.
  bool is_lost(int r, int awaited, clock::time_point now) {
    line& l = to(r);
    if (!failures_.is_silent(r) && !l.cannot_send && !l.has_ended) return false;
    if (l.lost == clock::time_point{}) l.lost = now;
    if (r == awaited && failures_.is_silent(r) && is_at_end(l)) return true;
    return !failures_.has_left(r) && now - l.lost > failure_channel::moment;
  }
  static bool is_at_end(const line& l) {
    char one;
    if (l.has_ended || (l.cannot_send && !l.out.waiting.empty())) return true;
    const auto n = ::recv(l.data.get(), &one, 1, MSG_PEEK);
    return n == 0 || (n < 0 && !is_only_not_now());
  }
  [[noreturn]] void give_up(errc code, const kolo::backoff& p, kolo::wait_context s, int peer,
                            const std::string& what) {
    s.peer = peer;
    const auto waited = clock::now() - p.since;
    throw error{fail(kolo::failure_from(s, code, rank_, waited, "rank " + std::to_string(peer) + what))};
  }

  /// Sleeps until a socket is ready or the time for the next check has come.
  void sleep(kolo::backoff& p, const kolo::wait_context& s) {
    auto left = s.timeout - (clock::now() - p.since);
    watched_ = failures_.watched();
    for (int r = 0; r < size(); ++r) {
      const line& l = to(r);
      const int in = l.in.waiting.empty() || l.has_ended ? 0 : POLLIN;
      const int out = l.out.waiting.empty() || l.cannot_send ? 0 : POLLOUT;
      if (in + out != 0) watched_.push_back({l.data.get(), static_cast<short>(in | out), 0});
      const bool is_lost_soon = l.lost != clock::time_point{} && !failures_.has_left(r);
      if (is_lost_soon) left = std::min<std::chrono::nanoseconds>(left, failure_channel::moment / 10);
    }
    if (p.nap.count() > 0) {
      left = std::min<std::chrono::nanoseconds>(left, p.nap);
      p.nap = std::min(p.nap + p.nap / 4, longest_nap);
    }
    left = std::max(left, left.zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec t{seconds.count(), (left - seconds).count()};
    ::ppoll(watched_.data(), watched_.size(), &t, nullptr);
  }

  void leave() noexcept {
    if (lines_.empty() || process_ != ::getpid()) return;  // moved from; or a copy by fork
    constexpr auto why = "an exception destroyed its communicator";
    const auto f = kolo::failure_from({.peer = rank_}, errc::peer_failed, rank_, {}, why);
    failures_.leave(std::uncaught_exceptions() > exceptions_ ? &f : nullptr);
  }

  tcp::options options_;
  int rank_, spins_ = 0, exceptions_ = std::uncaught_exceptions();
  unsigned splits_ = 0;
  pid_t process_ = ::getpid();
  kolo::placement place_{};
  std::string host_{};
  std::vector<line> lines_{};  ///< to every rank (its own is unused); empty: moved from
  std::vector<iovec> runs_{};
  std::vector<pollfd> watched_{};
  failure_channel failures_{};
};

using communicator = kolo::communicator<transport>;

/// Rank and size from KOLO_RANK and KOLO_SIZE or a launcher's variables; KOLO_TCP_ADDRESS, "host:port": the address of
/// rank 0; KOLO_JOB: the name of the job.
inline communicator world(options o = {}) {
  const auto me = kolo::from_environment();
  const char *const address = std::getenv("KOLO_TCP_ADDRESS"), *const job = std::getenv("KOLO_JOB");
  if (!address && me.size > 1)
    throw error{errc::invalid_argument, "KOLO_TCP_ADDRESS does not say where rank 0 listens: host:port"};
  if (job) o.job = job;
  return communicator{address ? address : "", me.rank, me.size, o};
}

}  // namespace tcp
