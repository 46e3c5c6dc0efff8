// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a schedule takes on a network: the same function (rank, size, round) -> step, run against a clock.
#pragma once

#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/untyped.hpp>
#include <kolo/simulate/network.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::inline v0::simulate {

namespace detail {

/// The clocks of all ranks. In a round a rank hands its messages to its port, one after the other, and then takes what arrives
/// in the order of arrival; its next round begins when its processor is through with this one. Nobody waits for anybody else.
class clocks {
 public:
  clocks(const kolo::detail::untyped_schedule& s, std::size_t bytes, const network& n)
      : s_{s}, p_{s.size}, bytes_{bytes}, net_{n}, ranks_(static_cast<std::size_t>(p_)) {}

  double run() {
    for (int k = 0; k < s_.rounds; ++k) {
      departures_.clear();
      for (int r = 0; r < p_; ++r) send(r, s_.at(r, k));
      for (int r = 0; r < p_; ++r) receive(r);
    }
    double end = 0;
    for (const auto& r : ranks_) end = std::max(end, r.processor);
    return end;
  }

 private:
  /// One rank: when its processor and its port, both ways, are free.
  struct state {
    double processor = 0, out = 0, in = 0;
    step now{};
    std::size_t first_departure = 0;
  };
  struct message {
    double arrives;
    std::size_t bytes;
    bool combines;
  };

  state& at(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  std::size_t size_of(const block_range& range, int peer) const {
    return bytes_in(range, peer, s_.blocks, rings(s_.collective), bytes_);
  }
  double seconds(std::size_t bytes) const { return static_cast<double>(bytes) * net_.seconds_per_byte; }
  double seconds_reduced(std::size_t bytes) const { return static_cast<double>(bytes) * net_.seconds_per_byte_reduced; }
  static bool is_alone(int r, const transfer& t) { return t.to.count == 1 && t.to.first == r; }

  void send(int r, const step& now) {
    auto& me = at(r);
    me.now = now;
    me.first_departure = departures_.size();
    for (const transfer& t : me.now)
      for (int i = 0; i < t.to.count; ++i) {
        if (is_alone(r, t)) {
          departures_.push_back(me.processor);
          continue;
        }
        me.processor += net_.overhead;
        const double leaves = std::max(me.processor, me.out);
        me.out = leaves + seconds(size_of(t.send, i)) + net_.gap;
        departures_.push_back(leaves);
      }
  }

  void receive(int r) {
    auto& me = at(r);
    arrivals_.clear();
    std::size_t combined_together = 0;  // in one pass over all that a transfer's peers have sent, when the last has arrived
    for (const transfer& t : me.now)
      for (int i = 0; i < t.from.count; ++i) {
        const bool together = t.then != arrival::replace && t.from.count > 1;
        const message m{0, size_of(t.receive, i), t.then != arrival::replace && !together};
        if (together) combined_together += m.bytes;
        if (is_alone(r, t)) me.processor += m.combines ? seconds_reduced(m.bytes) : 0;
        else arrivals_.push_back({departure(t.from.at(i, p_), r) + net_.latency, m.bytes, m.combines});
      }
    const auto earlier = [](const message& a, const message& b) { return a.arrives < b.arrives; };
    std::stable_sort(arrivals_.begin(), arrivals_.end(), earlier);
    for (const message& m : arrivals_) {
      const double is_in = std::max(m.arrives, me.in) + seconds(m.bytes);
      me.in = is_in + net_.gap;
      me.processor = std::max(me.processor, is_in) + net_.overhead + (m.combines ? seconds_reduced(m.bytes) : 0);
    }
    me.processor += seconds_reduced(combined_together);
  }

  /// When the message from s to r of this round leaves the port of s.
  double departure(int s, int r) {
    auto index = at(s).first_departure;
    for (const transfer& t : at(s).now) {
      if (const int i = t.to.index_of(r, p_); i != nobody) return departures_[index + static_cast<std::size_t>(i)];
      index += static_cast<std::size_t>(t.to.count);
    }
    throw std::invalid_argument("kolo::simulate: rank " + std::to_string(r) + " waits for a message that rank " +
                                std::to_string(s) + " does not send; ask kolo::verify about this schedule");
  }

  const kolo::detail::untyped_schedule& s_;
  int p_;
  std::size_t bytes_;
  network net_;
  std::vector<state> ranks_;
  std::vector<double> departures_;   // of the messages of this round, rank by rank
  std::vector<message> arrivals_;    // at one rank in this round
};
}  // namespace detail

/// Seconds until the last of `ranks` ranks is done. `bytes`: of the vector; of all parts together where each rank has one.
/// The schedule is taken at its word: prove it first (`kolo::verify`). Takes time in proportion to ranks * rounds.
template <Schedule S>
double run(const S& schedule, int ranks, std::size_t bytes, const network& n) {
  if (ranks < 1) throw std::invalid_argument("kolo::simulate: " + std::to_string(ranks) + " ranks; there must be one at least");
  if (ranks == 1) return 0;
  if (!supports(schedule, ranks))
    throw std::invalid_argument("kolo::simulate: this schedule does not support " + std::to_string(ranks) + " ranks");
  const kolo::detail::untyped<S> untyped{schedule, ranks};
  return detail::clocks{untyped, bytes, n}.run();
}

}  // namespace kolo::inline v0::simulate
