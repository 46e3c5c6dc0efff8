// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last operations of all ranks as text: on demand, or on a signal.
#pragma once

#include <kolo/config.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/os/tsc_clock.hpp>
#include <kolo/transport/abilities.hpp>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace kolo::inline KOLO_ABI {

namespace detail::observe {

using recorder_list = std::vector<std::shared_ptr<const transport::flight_recorder>>;

/// Writes text by `sink(text)`. Apart from the sink, all it does is async-signal-safe.
template <class Sink>
class flight_writer {
 public:
  static constexpr std::uint64_t shown = 6;  ///< per rank: the last collectives, and as many pair operations

  flight_writer(Sink& sink, std::int64_t now) : sink_{sink}, now_{now} {}

  void all(const recorder_list& ranks, int self, auto is_gone) {
    say("kolo: the last operations of ", number(ranks.size()), ranks.size() == 1 ? " rank" : " ranks", ", as rank ",
        number(std::uint64_t(self)), " sees them\n");
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      say("rank ", number(r), is_gone(int(r)) ? ", which has gone, " : " ");
      if (ranks[r]) rank(*ranks[r]);
      else say("cannot be seen from here\n");
    }
  }

  void rank(const transport::flight_recorder& of) {
    const auto latest = of.latest(), latest_pair = of.latest_pair();
    if (latest == 0 && latest_pair == 0) return say("has begun no operation\n");
    headline(latest == 0 && of.last().sequence == 0 ? of.find_pair(latest_pair) : of.last());
    for (std::uint64_t i = 0; i < shown && i < latest; ++i)
      if (const transport::flight_entry n = of.find(latest - i); n.sequence > 0) line(n);
    for (std::uint64_t i = 0; i < shown && i < latest_pair; ++i)
      if (const transport::flight_entry n = of.find_pair(latest_pair - i); n.sequence > 0) line(n);
  }

  /// The state of an operation in words.
  static std::string_view state(const transport::flight_entry& n) {
    return n.has_ended ? "has ended " : n.failed > 0 ? "failed in " : "is in ";
  }
  /// Writes "allreduce #17, round 3, waiting for rank 1 for 2.310 s", for example.
  void progress(const transport::flight_entry& n) {
    say(name(n.summary.what()), " #", number(n.sequence));
    if (n.has_ended || !n.waits()) return;
    if (n.round >= 0) say(", round ", number(std::uint64_t(n.round)));
    say(", waiting");
    if (n.peer >= 0) say(" for rank ", number(std::uint64_t(n.peer)));
    if (n.waits_since > 0) say(" for "), seconds((n.failed > 0 ? n.failed : now_) - n.waits_since);
  }

  void say(const auto&... text) { (sink_(std::string_view{text}), ...); }
  /// The text is valid until the fourth next call: there are four buffers.
  std::string_view number(std::uint64_t n) {
    auto& text = digits_[which_++ % 4];
    std::size_t at = sizeof text;
    do text[--at] = char('0' + n % 10);
    while ((n /= 10) > 0);
    return {text + at, sizeof text - at};
  }
  void seconds(std::int64_t ns) {
    const auto ms = std::uint64_t(ns > 0 ? ns / 1'000'000 : 0);
    say(number(ms / 1000), ".", number(1000 + ms % 1000).substr(1), " s");
  }

 private:
  void headline(const transport::flight_entry& n) {
    if (n.sequence == 0) return say("is going on at this moment\n");
    say(state(n));
    progress(n);
    say("\n");
  }
  void line(const transport::flight_entry& n) {
    say("  #", number(n.sequence), " ", name(n.summary.what()));
    if (n.with >= 0) say(" with rank ", number(std::uint64_t(n.with)));
    if (n.summary.what() != kind::barrier) say(", ", number(n.summary.bytes()), " bytes");
    say(", ", number(std::uint64_t(n.summary.rounds())), n.summary.rounds() == 1 ? " round" : " rounds");
    if (n.begun > 0) say(", begun "), seconds(now_ - n.begun), say(" ago");
    if (n.begun > 0 && n.has_ended && n.ended >= n.begun) say(", took "), seconds(n.ended - n.begun);
    say(n.has_ended ? "\n" : ", has not ended\n");
  }

  Sink& sink_;
  std::int64_t now_;
  char digits_[4][20]{};
  unsigned which_ = 0;
};

/// What a signal handler reads. It is freed only when no handler runs.
struct dump_target {
  recorder_list ranks;
  int self = 0;
};
inline std::atomic<const dump_target*> dump_targets[64]{};
inline std::atomic<int> dumps_running{0};

inline void dump_at_signal(int) {
  const int saved_errno = errno;
  dumps_running.fetch_add(1);
  std::size_t length = 0;
  char room[4096];  // one write for many words: the output of several ranks does not interleave
  const auto flush = [&] {
    for (std::size_t done = 0; done < length;) {
      const auto n = ::write(2, room + done, length - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += std::size_t(n);
    }
    length = 0;
  };
  const auto sink = [&](std::string_view text) {
    if (length + text.size() > sizeof room) flush();
    std::memcpy(room + length, text.data(), text.size());
    length += text.size();
  };
  for (const auto& target : dump_targets)
    if (const auto* t = target.load())
      flight_writer<decltype(sink)>{sink, os::processor_counter::time()}.all(t->ranks, t->self,
                                                                             [](int) { return false; }),
          flush();
  dumps_running.fetch_sub(1);
  errno = saved_errno;
}

}  // namespace detail::observe

/// Returns the last operations of each rank: collective, number, bytes, rounds, and the round and the rank it waits
/// for. Where ranks share memory, this includes ranks that are stuck or dead; elsewhere it has this rank only. Not
/// collective; works after a failure, too. Call it from the thread that uses the communicator. Operations of 16 KiB and
/// more have times, exact to some milliseconds. The rank waited for is known shortly after the wait begins.
template <Communicator C>
std::string dump(const C& comm) {
  const auto& e = *comm.engine();
  std::string text;
  const auto sink = [&](std::string_view part) { text += part; };
  const auto is_gone = [&](int r) {
    if constexpr (SeesExits<typename C::transport_type>) return e.transport.is_gone(r, r);
    else return false;
  };
  detail::observe::flight_writer<decltype(sink)>{sink, detail::os::processor_counter::time()}.all(
      detail::transport::recorders_of(e.transport, e.flight), e.transport.rank(), is_gone);
  return text;
}

/// While this exists, the signal writes the last operations of all ranks of `comm`, and of the communicators of all
/// other such objects, to standard error. The signal does not end the process, not even after this is destroyed. May
/// outlive the communicator. `const kolo::dump_on at_signal{SIGUSR1, comm};`
/// Errors  system: the system rejects the handler; out_of_resources: 64 such objects exist already.
class dump_on {
 public:
  dump_on(int signal, const Communicator auto& comm)
      : target_{new detail::observe::dump_target{
            detail::transport::recorders_of(comm.engine()->transport, comm.engine()->flight), comm.rank()}} {
    for (auto& entry : detail::observe::dump_targets) {
      const detail::observe::dump_target* none = nullptr;
      if (!entry_ && entry.compare_exchange_strong(none, target_.get())) entry_ = &entry;
    }
    if (!entry_) throw error{errc::out_of_resources, "64 communicators are dumped at a signal already"};
    struct sigaction action {};
    action.sa_handler = detail::observe::dump_at_signal;
    action.sa_flags = SA_RESTART;
    if (::sigaction(signal, &action, nullptr) == 0) return;
    leave();
    throw error{errc::system, "handling signal " + std::to_string(signal) + ": " + std::strerror(errno)};
  }
  dump_on(const dump_on&) = delete;
  dump_on& operator=(const dump_on&) = delete;
  ~dump_on() { leave(); }

 private:
  void leave() {
    entry_->store(nullptr);
    while (detail::observe::dumps_running.load() > 0) KOLO_PAUSE();
  }

  std::unique_ptr<const detail::observe::dump_target> target_;
  std::atomic<const detail::observe::dump_target*>* entry_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI
