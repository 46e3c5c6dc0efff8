// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search: ranks as fibers, the choices of a run, and the states that have been visited.
#pragma once

#include "explore/machine.hpp"

#include <cxxabi.h>
#include <ucontext.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <unordered_set>
#include <utility>

namespace explore {

/// Depth first. A state is what every rank has read so far, and the order of the messages: runs with the same state go on in the same way, so a state is
/// identified by a hash, of 64 bits, and explored once. A run starts from the beginning, with the choices of `trail_`.
/// Source: the views of Kang, Hur, Lahav, Vafeiadis, Dreyer, "A promising semantics for relaxed-memory concurrency", POPL 2017,
/// without promises; hashed states as in Holzmann, "The model checker SPIN", IEEE TSE 1997.
class search {
 public:
  verdict explore(scenario& s, std::size_t most_states) {
    what_ = &s;
    seen_.clear();
    trail_.clear();
    result_ = {};
    do run();
    while (result_.violation.empty() && seen_.size() < most_states && back());
    if (!result_.violation.empty() && s.tells) tell();
    else if (seen_.size() >= most_states)
      result_.violation = "not explored: more states than " + std::to_string(most_states);
    result_.states = seen_.size();
    return result_;
  }

  // Called by the code of the ranks.

  /// Whether code of a rank runs, and not the search on its behalf.
  static bool is_rank() { return current_ >= 0 && !searching_; }

  std::uint64_t perform(const request& q) {
    const int me = current_;
    auto& vain = vain_[me];
    if (vain > 0 && q.what == act::load)
      if (const auto* value = machine_.polled(me, q.address)) return *value;
    if (q.what == act::pause && what_->sleeps && ++vain < most_polls) return 0;
    if (std::exchange(vain, 0) > 0 && q.what != act::pause) machine_.of(me).polls.clear();
    searching_ = true;
    machine_.of(me).next = q;
    if (starting_) go_to(host);
    else if (const int next = choose(); next != me) go_to(next);
    const auto value = step();
    searching_ = false;
    return value;
  }

  void touch(const volatile void* p, std::size_t bytes, bool writes) {
    if (!is_rank() || !in_zone(p)) return;
    searching_ = true;
    machine_.touch(current_, reinterpret_cast<std::uintptr_t>(p), bytes, writes);
    notice_race();
    searching_ = false;
  }

  /// From the lane of the rank that runs, or the host's: zeroed; freed at the end of the run.
  std::byte* take(std::size_t bytes, std::size_t alignment = 128) {
    const auto lane = static_cast<std::size_t>(current_ + 1);
    auto& used = used_[lane];
    used = (used + alignment - 1) / alignment * alignment;
    if (used + bytes > lane_bytes) std::fputs("explore: a lane of the zone is too short\n", stderr), std::exit(3);
    return zone + lane * lane_bytes + std::exchange(used, used + bytes);
  }

  /// Ends the run, and the search.
  void violate(const std::string& text) {
    searching_ = true;  // so that the text is not allocated in the zone
    if (std::exchange(failed_, true)) return;
    result_.violation = (current_ == host ? "" : "rank " + std::to_string(current_) + ": ") + text;
    if (current_ != host) go_to(host);
  }

  /// This rank's own clock, in nanoseconds.
  std::int64_t time() { return current_ >= 0 && what_->time_passes ? times_[current_] += 30'000'000 : 0; }

 private:
  static constexpr int host = -1, most_polls = 16;  // more than a transport makes before it sleeps
  static constexpr std::size_t stack_bytes = 1 << 17;
  using exceptions = std::array<void*, 2>;  // the contents of __cxa_get_globals, for each fiber
  struct node {
    transition taken;
    std::vector<transition> rest;
  };

  void run() {
    ++result_.runs, at_ = 0, failed_ = false;
    machine_.reset(what_->ranks);
    machine_.judges = trail_.empty();
    for (std::size_t l = 0; l <= most_ranks; ++l) std::memset(zone + l * lane_bytes, 0, std::exchange(used_[l], 0));
    what_->begin();
    starting_ = true;
    for (int r = 0; r < what_->ranks && !failed_; ++r) start(r);
    starting_ = false;
    if (failed_) return;
    if (const int first = choose(); first != host) go_to(first);
  }

  void start(int r) {
    vain_[r] = 0, times_[r] = 0;
    auto& [c, thrown] = contexts_[static_cast<std::size_t>(r)];
    thrown = {};
    ::getcontext(&c);
    c.uc_stack.ss_sp = stacks_[r];
    c.uc_stack.ss_size = stack_bytes;
    ::makecontext(
        &c, [] { the().body(); }, 0);
    go_to(r);
  }

  void body() {
    searching_ = false;
    try {
      what_->rank(current_);
    } catch (const std::exception& e) {
      violate(std::string{"threw: "} + e.what());
    }
    searching_ = true;
    machine_.of(current_).is = machine::status::ended;
    go_to(starting_ ? host : choose());
    std::fputs("explore: a rank went on after its end\n", stderr), std::_Exit(3);
  }

  void go_to(int r) {
    auto& now = *reinterpret_cast<exceptions*>(abi::__cxa_get_globals());
    auto& from = contexts_[current_ == host ? most_ranks : static_cast<std::size_t>(current_)];
    auto& to = contexts_[r == host ? most_ranks : static_cast<std::size_t>(r)];
    from.second = std::exchange(now, to.second);
    current_ = r;
    ::swapcontext(&from.first, &to.first);
  }

  /// The rank of the next step; the host at the end of a run.
  int choose() {
    if (at_ < trail_.size()) return next();
    if (telling_) return host;
    fresh_.clear();
    if (machine_.state() != (trail_.empty() ? machine_.state() : trail_.back().taken.leads_to))
      return violate("a state that the explorer did not predict"), host;
    for (int r = 0; r < what_->ranks && fresh_.empty(); ++r)
      if (machine_.comes_first(r, what_->fences_all)) machine_.steps_of(r, fresh_);
    const bool one_first = !fresh_.empty();
    for (int r = 0; r < what_->ranks && !one_first; ++r) machine_.steps_of(r, fresh_);
    for (int r = 0; r < what_->ranks && fresh_.empty() && what_->time_passes; ++r)
      if (machine_.of(r).is == machine::status::asleep) fresh_.push_back(machine_.wakes_up(r));
    if (fresh_.empty()) return finish(), host;
    std::erase_if(fresh_, [&](const transition& t) { return seen_.contains(t.leads_to); });
    if (fresh_.empty()) return host;
    for (auto& t : fresh_)
      if (t.rank == current_) std::swap(t, fresh_.front());  // fewer switches
    trail_.push_back({fresh_.front(), {fresh_.begin() + 1, fresh_.end()}});
    seen_.insert(fresh_.front().leads_to);
    return next();
  }
  int next() {
    const int r = trail_[at_++].taken.rank;
    machine_.judges = at_ == trail_.size();
    return r;
  }

  bool back() {
    for (; !trail_.empty(); trail_.pop_back())
      for (auto& n = trail_.back(); !n.rest.empty();) {
        n.taken = n.rest.back();
        n.rest.pop_back();
        if (seen_.insert(n.taken.leads_to).second) return true;
      }
    return false;
  }

  std::uint64_t step() {
    const auto& t = trail_[at_ - 1].taken;
    const auto value = machine_.take(t);
    if (telling_) say(t, value);
    notice_race();
    if (machine_.of(current_).is == machine::status::asleep) {
      if (const int next = choose(); next != current_) go_to(next);
      return step();  // it is awake
    }
    return value;
  }

  // Ends.

  void finish() {
    std::string who;
    for (int r = 0; r < what_->ranks; ++r)
      if (const auto is = machine_.of(r).is; is != machine::status::ended)
        who += (who.empty() ? "rank " : ", rank ") + std::to_string(r) +
               (is == machine::status::asleep ? " sleeps" : " waits");
    const int last = std::exchange(current_, host);
    if (who.empty()) ++result_.ends, what_->end();
    else violate("no rank can go on: " + who);
    current_ = last;
  }

  void notice_race() {
    if (!machine_.race.empty()) violate(std::exchange(machine_.race, {}) + " at " + what_->name(machine_.raced_at));
  }

  /// Repeats the run, and prints its steps.
  void tell() {
    const auto result = result_;
    telling_ = true;
    run();
    telling_ = false;
    result_ = result;
  }
  void say(const transition& t, std::uint64_t value) {
    const auto& q = machine_.of(t.rank).next;
    static constexpr const char* orders[] = {"relaxed",   "consume", "acquire", "release", "acquire and release",
                                             "sequential"};
    const auto number = [](const char* before, std::uint64_t n) { return before + std::to_string(n); };
    std::string line = "rank " + std::to_string(t.rank) + " " + names[static_cast<std::size_t>(q.what)];
    if (q.address != 0) line += " " + what_->name(q.address);
    if (q.what == act::compare) line += number(", expects ", q.expected);
    if (q.what >= act::store && q.what <= act::compare) line += number(", writes ", q.operand);
    if (q.what == act::load || (q.what >= act::add && q.what <= act::compare)) line += number(", reads ", value);
    std::printf("    %s (%s)\n", line.c_str(), orders[static_cast<std::size_t>(q.how)]);
  }

 public:
  static search& the() {
    static search one;
    return one;
  }

 private:
  scenario* what_ = nullptr;
  explore::machine machine_{};
  verdict result_{};
  std::unordered_set<std::uint64_t> seen_{};
  std::vector<node> trail_{};
  std::vector<transition> fresh_{};
  std::size_t at_ = 0;                ///< in the trail: steps that have been chosen
  static inline int current_ = host;  // also read before there is a search
  static inline bool searching_ = false;
  bool starting_ = false, failed_ = false, telling_ = false;
  std::array<std::pair<ucontext_t, exceptions>, most_ranks + 1> contexts_{};  ///< the last: the host's
  std::array<std::size_t, most_ranks + 1> used_{};
  int vain_[most_ranks] = {};  ///< fruitless polls since its last other action
  std::int64_t times_[most_ranks] = {};
  alignas(64) std::byte stacks_[most_ranks][stack_bytes];
};

inline search& the() { return search::the(); }

}  // namespace explore
