// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traces in Chrome's JSON, which ui.perfetto.dev and chrome://tracing open: of one rank, or of all, merged. Opt-in.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/observe/traced.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::adapt {
inline constexpr std::string_view chrome_head = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
                                  chrome_tail = "\n]}\n";

/// Writes the trace of one rank: a process of the viewer, with a track each for operations, rounds and waits. Messages
/// may overlap, so they are asynchronous events.
class chrome_writer {
 public:
  chrome_writer(const trace_log& log, int rank, clock_offset clock) : log_{log}, rank_{rank}, clock_{clock} {}

  std::string write() {
    name_track("process_name", 0, "rank " + std::to_string(rank_));
    name_track("thread_name", operations, "operations");
    name_track("thread_name", rounds, "rounds");
    name_track("thread_name", waits, "waits");
    if (const auto text = labels(); !text.empty()) name_track("process_labels", 0, text);
    for (std::size_t i = 0; i < log_.size(); ++i) last_ = std::max({last_, log_[i].begin, log_[i].end});
    spans(operations, is_one_operation);
    spans(rounds,
          [](const trace_event& a, const trace_event& b) { return is_one_operation(a, b) && a.round == b.round; });
    for (std::size_t i = 0; i < log_.size(); ++i)
      log_[i].kind == trace_event::what::waited ? wait(log_[i]) : message(log_[i], i);
    return std::string{chrome_head} + text_ + std::string{chrome_tail};
  }

 private:
  enum track { operations = 1, rounds = 2, waits = 3, messages = 4 };

  static std::string operation_of(const trace_event& e) {
    if (*e.operation) return e.operation;
    if (e.kind == trace_event::what::waited) return "call";
    return e.tag == transport::split_tag ? "split" : name(static_cast<kolo::kind>(e.tag & 0xff));
  }
  /// Pair operations are numbered per pair, so their names and peers are compared, too.
  static bool is_one_operation(const trace_event& a, const trace_event& b) {
    const auto is_pair = [](const std::string& o) { return o == "send" || o == "receive" || o == "exchange"; };
    const auto one = operation_of(a), other = operation_of(b);
    return a.sequence == b.sequence && ((!is_pair(one) && !is_pair(other)) || (one == other && a.peer == b.peer));
  }
  static std::string number(const trace_event& e) { return e.sequence > 0 ? " #" + std::to_string(e.sequence) : ""; }
  std::int64_t end_of(const trace_event& e) const { return e.end == no_time ? last_ : e.end; }
  std::string labels() const {
    std::string text;
    if (log_.forgotten() > 0) text = std::to_string(log_.forgotten()) + " earlier events were forgotten";
    if (clock_.error > 0)
      text +=
          (text.empty() ? "" : ", ") + std::string{"clock within "} + microseconds(clock_.error) + " us of rank 0's";
    return text;
  }
  std::string time(std::int64_t ns) const { return microseconds(observe::time_between(ns, clock_.ns)); }
  static std::string microseconds(std::int64_t ns) {
    const auto size = ns < 0 ? 0 - std::uint64_t(ns) : std::uint64_t(ns);
    const auto part = std::to_string(size % 1000);
    return (ns < 0 ? "-" : "") + std::to_string(size / 1000) + '.' + std::string(3 - part.size(), '0') + part;
  }

  std::string& begin_event(const char* phase, int where, const std::string& what) {
    if (!text_.empty()) text_ += ",\n";
    text_ +=
        std::string{"{\"ph\":\""} + phase + "\",\"pid\":" + std::to_string(rank_) + ",\"tid\":" + std::to_string(where);
    return text_ += ",\"name\":\"" + what + '"';
  }
  void name_track(const char* what, int where, const std::string& text) {
    begin_event("M", where, what) += std::string{",\"args\":{\""} +
                                     (std::string_view{what} == "process_labels" ? "labels" : "name") + "\":\"" + text +
                                     "\"}}";
  }
  void span(int where, const std::string& what, std::int64_t begin, std::int64_t end, const std::string& more) {
    begin_event("X", where, what) +=
        ",\"ts\":" + time(begin) + ",\"dur\":" + microseconds(std::max<std::int64_t>(end - begin, 0)) + more + '}';
  }
  static std::string details(const trace_event& e) {
    return ",\"args\":{\"operation\":\"" + operation_of(e) + "\",\"sequence\":" + std::to_string(e.sequence) +
           ",\"round\":" + std::to_string(e.round) + ",\"peer\":" + std::to_string(e.peer) +
           ",\"bytes\":" + std::to_string(e.bytes) + '}';
  }

  void wait(const trace_event& e) { span(waits, "for " + std::to_string(e.peer), e.begin, end_of(e), details(e)); }
  void message(const trace_event& e, std::size_t i) {
    const auto what = (e.kind == trace_event::what::sent ? "to " : "from ") + std::to_string(e.peer);
    const auto id =
        ",\"cat\":\"piece\",\"id\":\"" + std::to_string(rank_) + '.' + std::to_string(log_.forgotten() + i) + '"';
    begin_event("b", messages, what) += id + ",\"ts\":" + time(e.begin) + details(e) + '}';
    begin_event("e", messages, what) += id + ",\"ts\":" + time(end_of(e)) + '}';
  }

  /// Writes a slice for each run of events in the log for which `same` holds, from the first to the last of them.
  void spans(track where, auto same) {
    for (std::size_t i = 0, next; i < log_.size(); i = next) {
      std::int64_t end = no_time, begin = log_[i].begin;
      const trace_event* known = &log_[i];  // without `watch`, a wait may not know its operation
      for (next = i; next < log_.size() && same(log_[i], log_[next]); ++next) {
        end = std::max(end, end_of(log_[next])), begin = std::min(begin, log_[next].begin);
        if (log_[next].kind != trace_event::what::waited) known = &log_[next];
      }
      const auto latest =
          next < log_.size() ? std::max(begin, log_[next].begin) : end;  // slices of a track must not overlap
      const auto what =
          where == rounds ? "round " + std::to_string(log_[i].round) : operation_of(*known) + number(*known);
      begin = std::max(begin, ended_[where]);
      ended_[where] = std::max(begin, std::min(end, latest));
      span(where, what, begin, ended_[where], details(*known));
    }
  }

  const trace_log& log_;
  int rank_;
  clock_offset clock_;
  std::int64_t last_ = no_time, ended_[5] = {no_time, no_time, no_time, no_time, no_time};
  std::string text_{};
};
}  // namespace detail::adapt

/// Returns the trace of a rank, for instance for a file of its own. Operations and rounds last from their first to
/// their last event. `clock`: see clock_offset_of; it is needed to merge traces of several hosts.
inline std::string chrome_trace(const trace_log& log, int rank, clock_offset clock = {}) {
  return detail::adapt::chrome_writer{log, rank, clock}.write();
}

/// Merges several traces. Their times agree if the processes are on one host, or if each was written with the offset of
/// its clock.
/// Errors  invalid_argument: a text that neither `chrome_trace` nor this function wrote.
inline std::string merge_chrome_traces(const std::vector<std::string>& traces) {
  std::string all;
  for (std::string_view one : traces) {
    const bool has_head = one.starts_with(detail::adapt::chrome_head);
    if (has_head) one.remove_prefix(detail::adapt::chrome_head.size());
    if (!has_head || !one.ends_with(detail::adapt::chrome_tail))
      throw error{errc::invalid_argument, "a trace to be merged is not what chrome_trace writes"};
    one.remove_suffix(detail::adapt::chrome_tail.size());
    if (!all.empty() && !one.empty()) all += ",\n";
    all += one;
  }
  return std::string{detail::adapt::chrome_head} + all + std::string{detail::adapt::chrome_tail};
}

/// Collective: returns the traces of all ranks as one, on every rank, by the clock of rank 0. Its own messages are not
/// traced. Not for hot paths: every rank sends some 400 bytes per event to every rank.
std::string merged_chrome_trace(Communicator auto& comm) {
  constexpr const char* own_name = "merged_chrome_trace";
  const auto here = comm.engine()->begin_alone(own_name);
  auto& transport = comm.transport().untraced();
  const auto clock = detail::transport::in_the_name_of(own_name, [&] { return clock_offset_of(transport); });
  const std::string mine = chrome_trace(comm.transport().log(), comm.rank(), clock);
  std::vector<std::uint64_t> lengths(std::size_t(comm.size()));
  lengths[std::size_t(comm.rank())] = mine.size();
  detail::transport::small_allgather(transport, lengths.data(), sizeof(std::uint64_t), own_name);
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<char> texts(longest * lengths.size());
  std::memcpy(texts.data() + std::size_t(comm.rank()) * longest, mine.data(), mine.size());
  detail::transport::small_allgather(transport, texts.data(), longest, own_name);
  std::vector<std::string> all;
  for (std::size_t r = 0; r < lengths.size(); ++r) all.emplace_back(texts.data() + r * longest, lengths[r]);
  return merge_chrome_traces(all);
}

}  // namespace kolo::inline KOLO_ABI
