// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rendezvous of ranks on any hosts: all connect to rank 0, receive the addresses of the others, and connect to them.
#pragma once

#include <kolo/kolo.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tcp {

using clock = kolo::backoff::clock;
using kolo::errc, kolo::error, kolo::failure;

// Sockets: non-blocking and close-on-exec.

class socket {
 public:
  explicit socket(int fd = -1) : fd_{fd} {}
  socket(socket&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  socket& operator=(socket&& other) noexcept { return std::swap(fd_, other.fd_), *this; }
  ~socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

inline bool is_only_not_now() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
inline void set(const socket& s, int level, int name, int value) {
  ::setsockopt(s.get(), level, name, &value, sizeof value);
}

/// Numeric "host:port" or "[host]:port".
using endpoint = kolo::fixed_text<64>;
inline std::string text(const endpoint& p) { return std::string{std::string_view{p}}; }
inline std::string host_of(const std::string& where) { return where.substr(0, where.rfind(':')); }

/// The address of this end of a connection or, with getpeername, of the other one.
inline endpoint endpoint_of(const socket& s, decltype(::getsockname)* end = ::getsockname) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const a = reinterpret_cast<sockaddr*>(&address);
  if (end(s.get(), a, &bytes) != 0) return {};
  if (::getnameinfo(a, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return {};
  return address.ss_family == AF_INET6 ? '[' + std::string{host} + "]:" + port : std::string{host} + ':' + port;
}

/// The first socket, of IPv4 or IPv6, for which begin(socket, address of `where`) succeeds; or an empty one.
template <class Begin>
socket socket_at(const std::string& where, Begin begin) {
  std::string host = host_of(where);
  const std::string quoted = '"' + where + '"';
  if (host.size() == where.size() || host.empty()) throw error{errc::invalid_argument, quoted + " is not host:port"};
  const std::string port = where.substr(host.size() + 1);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); code != 0)
    throw error{errc::invalid_argument, quoted + " is no address: " + ::gai_strerror(code)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all{found, ::freeaddrinfo};
  for (const auto* a = all.get(); a; a = a->ai_next) {
    socket s{::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (s && begin(s, *a)) return s;
  }
  return socket{};
}

/// Port 0: a free port, which endpoint_of() returns.
inline socket listen_at(const std::string& where) {
  socket s = socket_at(where, [](const socket& made, const addrinfo& a) {
    set(made, SOL_SOCKET, SO_REUSEADDR, 1);
    return ::bind(made.get(), a.ai_addr, a.ai_addrlen) == 0 && ::listen(made.get(), 4096) == 0;
  });
  return s ? std::move(s) : throw error{errc::system, "listening at " + where + ": " + std::strerror(errno)};
}

inline std::string within(std::chrono::nanoseconds t) {
  return " within " + std::to_string(std::chrono::duration<double>(t).count()) + " s";
}

// Rendezvous.

/// The first message on each connection.
struct hello {
  char magic[8] = {'k', 'o', 'l', 'o', ' ', 't', 'c', 'p'};
  std::uint64_t job = 0, version = 1, failure_bytes = sizeof(failure), piece_bytes = 0;
  std::int64_t timeout = 0;
  std::int32_t size = 1, rank = 0, is_control = 0, reserved = 0;
  endpoint at{};  ///< its listening address

  bool is_of(const hello& mine) const { return std::memcmp(magic, mine.magic, sizeof magic) == 0 && job == mine.job; }
  bool agrees_with(const hello& mine) const { return std::memcmp(this, &mine, offsetof(hello, rank)) == 0; }
};

/// Two connections to another rank: control messages do not queue behind data.
struct link {
  socket data, control;
};

/// Makes the links of one rank to all others: it connects to lower ranks, and higher ranks connect to it. Connections
/// that send nothing or no valid hello are dropped, and delay nobody. `watch` is called periodically, and may throw.
class rendezvous {
 public:
  std::vector<link> links;
  std::vector<endpoint> endpoints;  ///< the listening address of each rank

  rendezvous(const hello& mine, std::chrono::nanoseconds timeout, std::function<void()> watch)
      : links(static_cast<std::size_t>(mine.size)),
        endpoints(links.size()),
        mine_{mine},
        timeout_{timeout},
        watch_{std::move(watch)} {}

  /// Rank 0: accepts all others, and sends them all addresses, or an error.
  void host(socket listener) {
    open(std::move(listener));
    answered a{mine_, {}};
    a.fault.code = errc{};
    try {
      receive_higher();
    } catch (const error& e) {
      a.fault = e.cause();
    }
    if (const link& one = links[1]; one.data) {  // the listener may be bound to all addresses of this host
      const auto port = text(mine_.at).substr(host_of(text(mine_.at)).size());
      endpoints[0] = host_of(text(endpoint_of(one.data))) + port;
    }
    for (const link& l : links)
      send_to(l.data, &a, sizeof a), send_to(l.data, endpoints.data(), endpoints.size() * sizeof(endpoint));
    if (a.fault.code != errc{}) throw error{a.fault};
  }
  /// The other ranks; they may start before rank 0.
  void join(const std::string& where) {
    const auto until = deadline_ + std::chrono::seconds{1};  // time for rank 0's error, which names the missing rank
    for (answered a;; ::poll(nullptr, 0, 10)) {
      if (reach(0, where) && receive_all(links[0].data, &a, sizeof a, until) && a.who.is_of(mine_)) {
        a.fault.rank = mine_.rank;
        if (a.fault.code != errc{}) throw error{a.fault};
        if (receive_all(links[0].data, endpoints.data(), endpoints.size() * sizeof(endpoint), until)) break;
      }
      if (clock::now() >= deadline_) throw late(0, "was not found at " + where);
    }
    meet(1);
  }
  /// All addresses are known: connects to the lower ranks from `first` on, and accepts the higher ones.
  void meet(int first) {
    for (int r = first; r < mine_.rank; ++r) {
      const auto where = text(endpoint_of_rank(r));
      if (!reach(r, where)) throw late(r, "was not reached at " + where);
    }
    receive_higher();
  }
  void open(socket listener) {
    listener_ = std::move(listener);
    endpoint_of_rank(mine_.rank) = mine_.at = endpoint_of(listener_);
  }

 private:
  struct answered {
    hello who;
    failure fault;
  };
  struct connection {
    socket line;
    hello from{};
    std::size_t received = 0;
  };

  static constexpr std::chrono::nanoseconds longest =
      std::chrono::hours{9999};  // can be added to a time without overflow

  link& to(int rank) { return links[static_cast<std::size_t>(rank)]; }
  endpoint& endpoint_of_rank(int rank) { return endpoints[static_cast<std::size_t>(rank)]; }

  static int milliseconds_to(clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 50));
  }
  bool await(const socket& s, short events, clock::time_point until) {
    for (pollfd one{s.get(), events, 0}; ::poll(&one, 1, milliseconds_to(until)) <= 0; watch_())
      if (clock::now() >= until) return false;
    return true;
  }
  bool receive_all(const socket& s, void* data, std::size_t bytes, clock::time_point until) {
    for (auto* at = static_cast<char*>(data); bytes > 0;) {
      const auto n = ::recv(s.get(), at, bytes, 0);
      if (n == 0 || (n < 0 && (!is_only_not_now() || !await(s, POLLIN, until)))) return false;
      if (n > 0) at += n, bytes -= static_cast<std::size_t>(n);
    }
    return true;
  }
  /// For few bytes, which fit into the socket's buffer; errors are ignored.
  static void send_to(const socket& s, const void* what, std::size_t bytes) {
    static_cast<void>(::send(s.get(), what, bytes, MSG_NOSIGNAL));
  }

  static void prepare(const socket& s) {
    set(s, IPPROTO_TCP, TCP_NODELAY, 1);
    set(s, SOL_SOCKET, SO_KEEPALIVE, 1);    // detects hosts that vanish:
    set(s, IPPROTO_TCP, TCP_KEEPIDLE, 10);  // probes after 10 s of silence,
    set(s, IPPROTO_TCP, TCP_KEEPINTVL, 5);  // every 5 s;
    set(s, IPPROTO_TCP, TCP_KEEPCNT, 4);    // the connection ends after 4 unanswered probes
  }
  bool connect(const socket& s, const addrinfo& a) {
    int fault = 0;
    socklen_t bytes = sizeof fault;
    prepare(s);
    if (::connect(s.get(), a.ai_addr, a.ai_addrlen) != 0 && errno != EINPROGRESS) return false;
    if (!await(s, POLLOUT, deadline_)) return false;
    if (::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &fault, &bytes) != 0 || fault != 0) return false;
    return text(endpoint_of(s)) != text(endpoint_of(s, ::getpeername));  // a connection to itself, if nobody listens
  }
  bool reach(int rank, const std::string& where) {
    for (const bool is_control : {false, true}) {
      socket s = socket_at(where, [this](const socket& made, const addrinfo& a) { return connect(made, a); });
      if (!s) return false;
      if (!listener_) open(listen_at(host_of(text(endpoint_of(s))) + ":0"));
      mine_.is_control = is_control;
      send_to(s, &mine_, sizeof mine_);
      (is_control ? to(rank).control : to(rank).data) = std::move(s);
    }
    return true;
  }

  void receive_higher() {
    for (int who; (who = missing()) >= 0;) {
      if (clock::now() >= deadline_) throw fault_ ? error{*fault_} : late(who, "did not come");
      std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
      for (const connection& g : pending_) watched.push_back({g.line.get(), POLLIN, 0});
      ::poll(watched.data(), watched.size(), milliseconds_to(deadline_));
      watch_();
      socket s{::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (!s && (errno == EMFILE || errno == ENFILE))
        throw error{errc::out_of_resources, "no descriptors are left for the other ranks"};
      if (s) prepare(s), pending_.push_back({std::move(s)});
      std::erase_if(pending_, [this](connection& g) { return !still_pending(g); });
      if (pending_.size() > 256) pending_.erase(pending_.begin());
    }
    if (fault_) throw error{*fault_};
  }
  int missing() {
    for (int r = mine_.rank + 1; r < mine_.size; ++r)
      if (!to(r).data || !to(r).control) return r;
    return -1;
  }
  bool still_pending(connection& g) {
    const auto n = ::recv(g.line.get(), reinterpret_cast<char*>(&g.from) + g.received, sizeof g.from - g.received, 0);
    if (n <= 0) return n < 0 && is_only_not_now();
    if ((g.received += static_cast<std::size_t>(n)) < sizeof g.from) return true;
    const auto r = g.from.rank;
    if (!g.from.is_of(mine_) || r <= mine_.rank) return false;
    if (!g.from.agrees_with(mine_) || r >= mine_.size)
      return blame(g, "differs in version, number of ranks, timeout or piece_bytes"), false;
    socket& mine = g.from.is_control != 0 ? to(r).control : to(r).data;
    if (mine) return blame(g, "came twice"), false;
    mine = std::move(g.line);
    endpoint_of_rank(r) = g.from.at;
    return false;
  }
  /// Other ranks get the same error if they connect within a second.
  void blame(connection& g, const std::string& objection) {
    if (!fault_) {
      fault_ = fault(errc::mismatch, g.from.rank, objection);
      deadline_ = std::min(deadline_, clock::now() + std::chrono::seconds{1});
    }
    const answered a{mine_, *fault_};
    send_to(g.line, &a, sizeof a);
  }
  failure fault(errc code, int rank, const std::string& what) const {
    const auto text = "rank " + std::to_string(rank) + ' ' + what;
    return kolo::failure_from({.operation = "join", .peer = rank}, code, mine_.rank, clock::now() - begun_, text);
  }
  error late(int rank, const std::string& what) const {
    return error{fault(errc::timeout, rank, what + within(timeout_))};
  }

  hello mine_;
  socket listener_;
  std::chrono::nanoseconds timeout_;
  clock::time_point begun_ = clock::now(), deadline_ = begun_ + std::min(timeout_, longest);
  std::function<void()> watch_;
  std::vector<connection> pending_;
  std::optional<failure> fault_;
};

}  // namespace tcp
