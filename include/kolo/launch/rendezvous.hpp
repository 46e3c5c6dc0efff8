// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks that a launcher started on one host find each other, leaving nothing in any file system.
#pragma once

#include <kolo/launch/job_id.hpp>
#include <kolo/launch/rendezvous_protocol.hpp>
#include <kolo/os/descriptor.hpp>
#include <kolo/transport/progress.hpp>

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::launch {

/// Poll of a wait during connection setup: checks sockets again when data arrives, and progresses this thread's started
/// operations.
inline constexpr auto progress_only = [] {
  return transport::pause_between(transport::progress_others(nullptr), std::chrono::hours{1});
};

/// Its destruction notifies the other end, even if a process that was forked meanwhile also holds the socket.
class ending_socket : public os::descriptor {
 public:
  ending_socket(os::descriptor made) noexcept : os::descriptor{std::move(made)} {}
  ending_socket(ending_socket&&) noexcept = default;
  ending_socket& operator=(ending_socket other) noexcept {
    std::swap<os::descriptor>(*this, other);
    return *this;
  }
  ~ending_socket() { ::shutdown(get(), SHUT_RDWR); }
};

/// Rank 0's side: collects the others, and sends all of them the same reply. `Used`: only programs whose ranks meet
/// instantiate it.
template <class Used = void>
class rendezvous_server {
 public:
  rendezvous_server(const rendezvous_options& options, os::descriptor listener, rendezvous_clock::time_point started)
      : options_{options},
        listener_{std::move(listener)},
        started_{started},
        deadline_{started + options.timeout},
        members_(std::size_t(options.size)) {
    std::fill_n(members_.begin(), options.here, os::this_process());
  }

  /// Waits until all have come; then `prepare(memory, members)` makes the region that they share. An exception from
  /// `check` meanwhile is sent to the ranks that have come.
  template <class Prepare, class Check = decltype(progress_only)>
  rendezvous_result receive(Prepare&& prepare, Check check = progress_only) {
    try {
      collect(check);
      if (!fault_) {
        shm::shared_mapping memory;
        const std::uint64_t region = prepare(memory, std::as_const(members_));
        admit(region, memory.fd());
        return {memory, region};
      }
    } catch (const error& e) {
      blame(e.code(), 0, std::string{std::string_view{e.cause().text}});
    } catch (const std::exception& e) {
      blame(errc::system, 0, e.what());
    }
    throw error{fault_->as_failure(0, rendezvous_clock::now() - started_)};
  }

  /// Waits until all have come, or one is at fault (see `fault`). `check` is called all the time: its exception ends
  /// the wait, without a reply to the ranks that have come.
  void collect(auto check) {
    while (missing() > 0 && rendezvous_clock::now() < deadline_) {
      const auto pause = check();
      wait_for_word(std::min(deadline_, rendezvous_clock::now() + pause));
      for (int n = 0; n < most_at_once && accept_one(); ++n) {
      }
      for (std::size_t i = connections_.size(); i-- > 0;)
        if (!attend(connections_[i])) connections_.erase(connections_.begin() + std::ptrdiff_t(i));
    }
    if (missing() > 0)
      blame(errc::timeout, first_missing(),
            missing_ranks() + transport::in_seconds(rendezvous_clock::now() - started_));
  }
  /// The first fault, if there is one.
  const std::optional<reply>& fault() const { return fault_; }

  /// Called once, when all have come: sends them that region. Errors  out_of_resources: the system has no room for the
  /// descriptors until the deadline.
  void admit(std::uint64_t region, int file) {
    listener_ = os::descriptor{};
    std::erase_if(connections_, [](const connection& c) { return c.rank < 0; });  // connections without a hello
    for (const connection& c : connections_)
      while (!send_reply(c.socket.get(), {.region = region, .peer = c.rank}, file)) {
        if (rendezvous_clock::now() >= deadline_) os::throw_errno("sending the shared segment");
        ::poll(nullptr, 0, 1);  // the limit of descriptors in flight is reached; receivers lower it
      }
  }
  /// Waits a moment, or until one of them has used its reply and closes its socket.
  void await_arrivals() { wait_for_word(rendezvous_clock::now() + std::chrono::milliseconds{1}); }
  /// The first rank that has closed its socket before `has_arrived(rank)`; -1: none.
  int first_lost(auto has_arrived) {
    std::erase_if(connections_, [&](const connection& c) { return has_arrived(c.rank); });
    for (const connection& c : connections_) {
      char end;
      const auto n = ::recv(c.socket.get(), &end, 1, MSG_DONTWAIT);
      const bool is_open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
      if (!is_open && !has_arrived(c.rank)) return c.rank;
    }
    return -1;
  }

 private:
  struct connection {
    ending_socket socket;
    int rank = -1;  // no hello yet
    std::int32_t pid = 0;
  };
  static constexpr std::chrono::seconds notify_time{1};  // in which late ranks can still get the fault
  /// Connections may come without end; known ones and the deadline are checked in between.
  static constexpr int most_at_once = 64;

  static bool is_missing(const os::process_id& m) { return m.pid == 0; }
  int missing() const { return int(std::count_if(members_.begin(), members_.end(), is_missing)); }
  int first_missing() const {
    return int(std::find_if(members_.begin(), members_.end(), is_missing) - members_.begin());
  }
  std::string missing_ranks() const {
    if (const int awaited = options_.size - options_.here; options_.is_growing)
      return (missing() == awaited ? std::string{"nobody"}
                                   : "only " + std::to_string(awaited - missing()) + " of " + std::to_string(awaited)) +
             " came to join within ";
    constexpr int most = 8;
    std::string list;
    int listed = 0;
    for (std::size_t r = 0; r < members_.size() && listed < most; ++r)
      if (is_missing(members_[r])) list += (listed++ > 0 ? ", " : "") + std::to_string(r);
    if (missing() > most) list += " and " + std::to_string(missing() - most) + " more";
    return (missing() > 1 ? "ranks " : "rank ") + list + " did not come within ";
  }

  void wait_for_word(rendezvous_clock::time_point until) {
    std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
    for (const connection& c : connections_) watched.push_back({c.socket.get(), POLLIN, 0});
    ::poll(watched.data(), watched.size(), milliseconds_until(until));
  }

  bool accept_one() {
    os::descriptor socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket) {
      const int failed = errno;
      if (failed == EINTR || failed == ECONNABORTED) return true;
      pollfd waiting{listener_.get(), POLLIN, 0};  // without a descriptor left, accept fails also if there is nobody
      if (failed == EAGAIN || ::poll(&waiting, 1, 0) <= 0) return false;
      blame(
          os::is_exhausted(failed) ? errc::out_of_resources : errc::system, 0,
          "receiving the other ranks, a descriptor each (see `ulimit -n`): " + std::generic_category().message(failed));
      connections_.clear();  // they have the error, and the other ranks need their descriptors
      return false;
    }
    const auto who = peer_of(socket.get());
    if (who.uid == ::geteuid()) connections_.push_back({std::move(socket), -1, who.pid});
    return true;
  }

  /// Reads from a connection. False: it has closed, or was closed here.
  bool attend(connection& c) {
    hello_message hello;
    const ssize_t n = ::recv(c.socket.get(), &hello, sizeof hello, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) {
      if (c.rank >= 0 && options_.is_growing) members_[std::size_t(c.rank)] = {};  // another will do
      if (c.rank >= 0 && !options_.is_growing)
        blame(errc::peer_died, c.rank, "rank " + std::to_string(c.rank) + " ended before all had come");
      return false;
    }
    if (std::size_t(n) < offsetof(hello_message, size) || hello.magic != rendezvous_magic) return false;
    if (options_.is_growing && hello.rank != newcomer) {  // rank 0 of another group: no fault of those who wait here
      send_reply(c.socket.get(), {.code = errc::mismatch,
                                  .peer = 0,
                                  .text = std::string_view{"another group of ranks grows under that name"}});
      return false;
    }
    if (options_.is_growing) {
      if (missing() == 0) return false;  // it may come to the next meeting
      hello.rank = first_missing();
    }
    if (const auto objection = object(c, hello, std::size_t(n)); !objection.empty())
      blame(errc::mismatch, hello.rank, objection);
    if (hello.rank >= 0 && hello.rank < options_.size)
      members_[std::size_t(hello.rank)] = {c.pid, os::read_status(c.pid).start_time};
    if (!fault_) {
      c.rank = hello.rank;
      if (options_.is_growing) return attend(c);  // it may have gone meanwhile
      const auto left =
          std::clamp<std::int64_t>(hello.remaining_ns, 0, std::chrono::nanoseconds{options_.timeout}.count());
      deadline_ = std::min(deadline_, rendezvous_clock::now() + std::chrono::nanoseconds{left});
      return true;
    }
    send_reply(c.socket.get(), *fault_);
    return false;
  }

  /// Why a hello is rejected, in a sentence; empty if it is accepted.
  std::string object(const connection& c, const hello_message& hello, std::size_t bytes) const {
    const hello_message mine = greet(options_, {});
    const std::string who = options_.is_growing ? "a newcomer" : "rank " + std::to_string(hello.rank);
    const auto they = [&](const std::string& a, const std::string& b) { return who + ' ' + a + ", rank 0 " + b; };
    if (bytes != sizeof hello || hello.protocol != mine.protocol || hello.version != mine.version)
      return they("was built with " + hello.version_text(), "with " + mine.version_text());
    if (hello.size != (options_.is_growing ? 0 : mine.size))
      return they("was started as one of " + std::to_string(hello.size), "as one of " + std::to_string(mine.size));
    if (hello.rank < 0 || hello.rank >= mine.size)
      return "a rank " + std::to_string(hello.rank) + " came, and there are only " + std::to_string(mine.size);
    if (const os::process_id& there = members_[std::size_t(hello.rank)]; there.pid != 0)
      return "rank " + std::to_string(hello.rank) + " came twice, as process " + std::to_string(there.pid) +
             " and as process " + std::to_string(c.pid);
    if (hello.pid != c.pid)
      return who + " lives in another pid namespace than rank 0, where its death could not be noticed";
    for (std::size_t t = 0; t < hello.terms.size(); ++t) {
      if (hello.terms[t] == mine.terms[t]) continue;
      const std::string name = t < options_.terms.size() ? options_.terms[t].name : "something";
      return they("was given " + name + ' ' + std::to_string(hello.terms[t]), std::to_string(mine.terms[t]));
    }
    return {};
  }

  /// The first fault is kept. From then on every rank gets it, also those that still come, but not for long.
  void blame(errc code, int peer, const std::string& text) {
    if (fault_) return;
    fault_ = reply{.code = code, .peer = peer, .text = std::string_view{text}};
    deadline_ = std::min(deadline_, rendezvous_clock::now() + notify_time);
    for (const connection& c : connections_)
      if (c.rank >= 0 && !(options_.is_growing && code == errc::timeout)) send_reply(c.socket.get(), *fault_);
  }

  const rendezvous_options& options_;
  ending_socket listener_;
  rendezvous_clock::time_point started_, deadline_;
  std::vector<os::process_id> members_;  // pid 0: has not come yet
  std::vector<connection> connections_;
  std::optional<reply> fault_;
};

/// The processes met on the way to rank 0.
struct encounters {
  os::process_id host{};  ///< the last rank 0 that was contacted
  bool stranger = false;  ///< the place is held by another user, or by a process that does not answer
};

/// Whether it cannot answer. Its place may still be taken: by a process that it has forked. A group that grows has
/// other ranks, and newcomers do not wait for one that is stopped.
inline bool is_silent(const os::process_id& host, bool is_growing) {
  return (is_growing && os::is_stopped(host)) || (host.pid > 0 && !os::is_alive(host));
}

/// One attempt of another rank at one place: empty if rank 0 is not there, or closed without a reply.
std::optional<admission> try_to_join(const rendezvous_options& options, const std::string& place,
                                     rendezvous_clock::time_point started, encounters& met, auto check) {
  const auto deadline = started + options.timeout;
  os::descriptor socket = connect_to(place);
  if (!socket) return std::nullopt;
  const auto who = peer_of(socket.get());
  met.stranger = who.uid != ::geteuid();
  if (met.stranger) return std::nullopt;
  met.host = {who.pid, os::read_status(who.pid).start_time};
  pollfd watched{socket.get(), POLLIN, 0};
  const auto has_gone = [&] {  // and left neither a reply nor the end of its socket, which a forked process holds
    return is_silent(met.host, options.is_growing) && ::poll(&watched, 1, 0) <= 0;
  };
  met.stranger = has_gone();
  if (met.stranger) return std::nullopt;
  const auto begin = rendezvous_clock::now();
  const hello_message hello = greet(options, deadline - begin);
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return std::nullopt;

  // Rank 0 may report which rank did not come. Another group's rank 0 reports at once that it has the place.
  constexpr std::chrono::nanoseconds moment = std::chrono::seconds{1};
  const auto until = deadline + moment;
  while (::poll(&watched, 1,
                milliseconds_until(std::min(
                    until, rendezvous_clock::now() + std::min<std::chrono::nanoseconds>(moment, check())))) <= 0) {
    const auto now = rendezvous_clock::now();
    const bool goes = has_gone();
    met.stranger = options.is_growing && (goes || (options.rank == 0 && now > begin + moment));
    if (goes || met.stranger || now >= until) return std::nullopt;
  }
  os::descriptor file;
  const auto answer = receive_reply(socket.get(), file);
  if (!answer) return std::nullopt;
  if (answer->code != errc{}) throw error{answer->as_failure(options.rank, rendezvous_clock::now() - started)};
  return admission{std::move(file), answer->region, answer->peer, std::move(socket)};
}

/// The same at all places where rank 0 may be if it found its own taken.
std::optional<admission> try_further_places(const rendezvous_options& options, rendezvous_clock::time_point started,
                                            encounters& met, auto check) {
  for (const auto& place : further_places(options.name, os::contents_of("/proc/self/net/unix"))) {
    if (rendezvous_clock::now() >= started + options.timeout) break;
    if (auto joined = try_to_join(options, place, started, met, check)) return joined;
  }
  return std::nullopt;
}

/// This rank's part in the rendezvous of that name. Rank 0 takes the place and calls `host(listener)`; any other rank
/// finds it, and calls `join(admission)`. `check` is called meanwhile: its exception ends the rendezvous.
template <class Host, class Join, class Check = decltype(progress_only)>
auto rendezvous_at(const rendezvous_options& options, rendezvous_clock::time_point started, Host host, Join join,
                   Check check = progress_only) -> decltype(host(os::descriptor{})) {
  const auto give_up = [&](errc code, const std::string& text) {
    return error{reply{.code = code, .peer = options.is_growing ? -1 : 0, .text = std::string_view{text}}.as_failure(
        options.rank, rendezvous_clock::now() - started)};
  };
  encounters met;
  for (unsigned attempt = 1;; ++attempt) {
    check();
    if (options.rank == 0) {
      const bool is_taken = met.stranger || attempt > 100;  // or by a process that does not identify itself
      if (os::descriptor listener = listen_at(is_taken ? further_place(options.name) : options.name))
        return host(std::move(listener));
    }  // the name is taken: by another rank 0, which will reply so, or by a stranger
    if (auto joined = try_to_join(options, options.name, started, met, check)) return join(*std::move(joined));
    if (options.rank != 0 && attempt % 16 == 0)
      if (auto joined = try_further_places(options, started, met, check)) return join(*std::move(joined));
    if (!options.is_growing && !met.stranger && met.host.pid > 0 && !os::is_alive(met.host))
      throw give_up(errc::peer_died, "rank 0 died before all had come");
    if (rendezvous_clock::now() >= started + options.timeout) break;
    ::poll(nullptr, 0, options.is_growing && attempt > 1000 ? 5 : 1);  // a newcomer may wait for hours
  }
  if (options.is_growing)
    throw give_up(errc::timeout, options.rank == 0 ? "another group of ranks uses that name"
                                                   : "no group of ranks has grown under that name within " +
                                                         transport::in_seconds(options.timeout));
  throw give_up(errc::timeout,
                "rank 0 was not found within " + transport::in_seconds(options.timeout) +
                    ": it was not started, or is on another host or in another container; where wrappers hide from "
                    "shm::world what started the ranks, give all of them the same KOLO_JOB");
}

/// Collective over the ranks of a job on this host. Every rank calls it with the same name and size; rank 0's
/// `prepare(memory, members)` makes the region that they share, when all have come, and returns its number. All ranks
/// get that, or all throw the same: `mismatch` if ranks differ in version, size or terms or one came twice,
/// `peer_died`, or `timeout` naming the missing ranks. Other users, who can see the name, cannot join or delay a rank
/// beyond the timeout: they are rejected by their credentials, and nothing is read from them. `check` is called now and
/// then: it throws when waiting is pointless, and returns how soon it must be called again.
template <class Prepare, class Check = decltype(progress_only)>
rendezvous_result rendezvous(const rendezvous_options& options, Prepare&& prepare, Check check = progress_only) {
  const auto started = rendezvous_clock::now();
  return rendezvous_at(
      options, started,
      [&](os::descriptor listener) {
        return rendezvous_server{options, std::move(listener), started}.receive(prepare, check);
      },
      [](admission a) {
        return rendezvous_result{shm::shared_mapping{std::move(a.file)}, a.region};
      },
      check);
}

/// Number of rendezvous completed in this process. A failed one is not counted, so a retry uses the same name. All
/// ranks have the same count, unless one failed locally (out of memory or descriptors) after the others succeeded.
inline std::atomic<unsigned> rendezvous_count{0};

}  // namespace kolo::inline KOLO_ABI::detail::launch
