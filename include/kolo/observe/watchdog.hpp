// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports, once per operation that waits for long, which rank waits for which: long before a deadline passes.
#pragma once

#include <kolo/observe/dump.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace kolo::inline KOLO_ABI {

namespace detail::observe {

/// Polls the recorders of a communicator.
class stall_detector {
 public:
  stall_detector(recorder_list ranks, int self, std::chrono::nanoseconds longest)
      : ranks_{std::move(ranks)}, self_{self}, longest_{longest} {}

  /// Returns the report, mostly empty. The time of an operation counts from the first poll that finds it in flight.
  std::string poll(backoff::clock::time_point now) {
    const transport::flight_entry n = ranks_[std::size_t(self_)]->last();
    if (n.sequence == 0 || n.has_ended || n.failed > 0) return {};
    if (n.sequence != last_.sequence || n.with != last_.with || n.summary.word() != last_.summary.word())
      last_ = n, since_ = now, has_reported_ = false;
    if (has_reported_ || !n.waits() || now - since_ < longest_) return {};
    has_reported_ = true;
    return sentence(n);
  }

 private:
  std::string sentence(const transport::flight_entry& mine) const {
    std::string text;
    const auto sink = [&](std::string_view part) { text += part; };
    flight_writer<decltype(sink)> writer{sink, os::processor_counter::time()};
    writer.say("kolo: rank ", writer.number(std::uint64_t(self_)), " has been in ", name(mine.summary.what()), " #",
               writer.number(mine.sequence), " for more than ");
    writer.seconds(longest_.count());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r]) continue;
      const transport::flight_entry n = ranks_[r]->last();
      writer.say("; rank ", writer.number(r), " ", n.sequence == 0 ? "has begun nothing" : writer.state(n));
      if (n.sequence > 0) writer.progress(n);
    }
    return text + '\n';
  }

  recorder_list ranks_;
  int self_;
  std::chrono::nanoseconds longest_;
  transport::flight_entry last_{};
  backoff::clock::time_point since_{};
  bool has_reported_ = false;
};

}  // namespace detail::observe

/// A thread that checks four times per `longest`, and at least once per second, whether an operation of this rank has
/// waited for `longest`. It reports each such operation once: where each rank is, and which rank it waits for. It only
/// reads, and costs the ranks nothing. May outlive the communicator.
///
///     const kolo::watchdog dog{comm, 30s};                                              // to standard error
///     // called by the watchdog's thread; must not throw
///     const kolo::watchdog dog{comm, 30s, [](const std::string& text) { ... }};
class watchdog {
 public:
  watchdog(const Communicator auto& comm, std::chrono::nanoseconds longest)
      : watchdog{comm, longest, [](const std::string& text) {
                   if (::write(2, text.data(), text.size()) < 0) return;  // standard error cannot be written
                 }} {}

  watchdog(const Communicator auto& comm, std::chrono::nanoseconds longest, auto say)
      : thread_{[guard = detail::observe::stall_detector{detail::transport::recorders_of(comm.engine()->transport,
                                                                                         comm.engine()->flight),
                                                         comm.rank(), longest},
                 say = std::move(say),
                 pause = std::clamp<std::chrono::nanoseconds>(longest / 4, std::chrono::milliseconds{1},
                                                              std::chrono::seconds{1})](std::stop_token stop) mutable {
          std::mutex alone;
          std::condition_variable_any called;
          for (std::unique_lock lock{alone};
               !called.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); });)
            if (const std::string text = guard.poll(backoff::clock::now()); !text.empty()) say(text);
        }} {}

 private:
  std::jthread thread_;
};

}  // namespace kolo::inline KOLO_ABI
