// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of a message: processors, ports and cards of a network. All simulated clocks use it, of schedules and of
// programs.
#pragma once

#include <kolo/core/rank.hpp>
#include <kolo/simulate/network.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::simulate {

/// The random delays of a rank, each between 0 and 1.
class delays {
 public:
  constexpr delays() = default;
  constexpr delays(std::uint64_t seed, int rank) : state_{core::stir(seed + weyl * (std::uint64_t(rank) + 1))} {}
  constexpr double next() { return double(core::stir(state_ += weyl) >> 11) * 0x1p-53; }

 private:
  static constexpr std::uint64_t weyl = 0x9e3779b97f4a7c15u;
  std::uint64_t state_ = 0;
};

/// A message on its way to a rank.
struct incoming {
  std::size_t bytes = 0;
  double at = 0;  ///< when it reaches the receiver's port; if is_in, when it has come in
  int from = 0;
  bool is_in = false;  ///< it has come in through the port
};

/// The rules of time:
///
/// * Sending n bytes takes a processor `overhead`. The message leaves when the sender's port is free; the port is then
///   busy for n * seconds_per_byte, and idle for `gap`. After `latency` the first byte is at the receiver's port, which
///   takes the message in when it is free: also n * seconds_per_byte, and then `gap`.
/// * The messages that a rank waits for together (in a schedule: those of one round) come in through its ports in the
///   order of arrival. The processor then takes each in the order in which they have come in: `overhead` each.
/// * Combining n bytes takes a processor n * seconds_per_byte_reduced, after it has taken all messages that it waited
///   for together.
/// * No rank waits for a port to finish sending. Copies, and choosing what to do, take no time.
class machine {
 public:
  machine(int ranks, const kolo::simulate::network& n)
      : net_{n}, outside_{n.outside()}, processors_(std::size_t(ranks)), ranks_{std::size_t(ranks)} {
    check();
    const auto nodes = two_levels() ? (ranks_ + per_node() - 1) / per_node() : 0;
    ports_.resize(two_levels() ? 2 * ranks_ + nodes * std::size_t(n.cards_per_node) : ranks_);
    for (const kolo::simulate::straggler& s : n.stragglers)
      if (s.rank < ranks) of(s.rank).factor = s.factor;
    for (int r = 0; r < ranks; ++r) of(r).random = {n.seed, r};
    for (int r = 0; r < ranks && two_levels(); ++r) assign_node(r);
  }

  /// Whether ranks share ports. Shared ports must be used in the order of time; otherwise the clocks of ranks are
  /// independent.
  bool has_cards() const { return two_levels() && net_.cards_per_node > 0; }
  bool is_shared(int from, int to) const { return has_cards() && !is_inside(from, to); }  ///< a message passes a card
  const kolo::simulate::network& described() const { return net_; }
  int node_of(int r) const { return two_levels() ? of(r).node : 0; }

  /// The time at which the rank's processor has done all its work.
  double now(int r) {
    apply_pending(of(r));
    return of(r).now;
  }
  /// The time at which all have.
  double end() {
    double last = 0;
    for (int r = 0; std::size_t(r) < ranks_; ++r) last = std::max(last, now(r));
    return last;
  }
  void wait_until(int r, double time) {
    if (of(r).now < time) of(r).now = std::max(now(r), time);
  }
  void compute(int r, double seconds) { of(r).now = now(r) + seconds * of(r).factor; }
  void combine(int r, std::size_t bytes) { of(r).to_combine += bytes; }

  /// Returns when the message reaches the receiver's port.
  double send(int from, int to, std::size_t bytes) {
    auto& me = of(from);
    const bool inside = is_inside(from, to);
    const kolo::simulate::link& l = link_of(inside);
    apply_pending(me);
    me.now += l.overhead * me.factor * noise(me);
    auto& out = port_of(me, from, inside).out;
    const double leaves = std::max(me.now, out);
    out = leaves + double(bytes) * l.seconds_per_byte + l.gap;
    return leaves + l.latency * noise(me);
  }

  struct position {};  ///< of a message on its path
  /// A message has reached the receiver's card. Returns whether it is in. (In a graph it may have another link ahead.)
  bool pass_link(int to, incoming& a, position&) { return come_in(to, a), true; }

  /// A message comes in through the receiver's port, which it has reached.
  void come_in(int to, incoming& a) {
    const bool inside = is_inside(a.from, to);
    const kolo::simulate::link& l = link_of(inside);
    auto& in = port_of(of(to), to, inside).in;
    a.at = std::max(a.at, in) + double(a.bytes) * l.seconds_per_byte;
    a.is_in = true;
    in = a.at + l.gap;
  }
  /// Returns when it would have come in if the port were free.
  double earliest(int to, const incoming& a) const {
    return a.is_in ? a.at : a.at + double(a.bytes) * link_of(is_inside(a.from, to)).seconds_per_byte;
  }

  /// Receives the messages that the rank has waited for together.
  void take(int r, std::span<incoming> all) {
    auto& me = of(r);
    apply_pending(me);
    sort(all);
    for (incoming& a : all)
      if (!a.is_in) come_in(r, a);
    if (two_levels()) sort(all);  // they came in through different ports
    for (const incoming& a : all) {
      const double overhead = link_of(is_inside(a.from, r)).overhead;
      me.now = std::max(me.now, a.at) + overhead * me.factor * noise(me);
    }
  }

 private:
  struct port {
    double out = 0, in = 0;  ///< time from which it is free
  };
  struct processor {
    double now = 0, factor = 1;
    std::size_t to_combine = 0;  ///< bytes; charged before anything else
    delays random{};
    int node = 0;
    std::size_t card = 0;
  };

  processor& of(int r) { return processors_[std::size_t(r)]; }
  const processor& of(int r) const { return processors_[std::size_t(r)]; }
  bool two_levels() const { return net_.ranks_per_node > 0; }
  std::size_t per_node() const { return std::size_t(net_.ranks_per_node); }
  bool is_inside(int a, int b) const { return two_levels() && of(a).node == of(b).node; }
  const kolo::simulate::link& link_of(bool inside) const { return inside ? net_.inside : outside_; }
  port& port_of(const processor& me, int r, bool inside) {
    return ports_[inside ? ranks_ + std::size_t(r) : has_cards() ? me.card : std::size_t(r)];
  }
  double noise(processor& me) const { return net_.noise == 0 ? 1 : 1 + net_.noise * me.random.next(); }

  void apply_pending(processor& me) const {
    if (me.to_combine == 0) return;
    me.now += double(me.to_combine) * net_.seconds_per_byte_reduced * me.factor;
    me.to_combine = 0;
  }
  static void sort(std::span<incoming> all) {
    const auto earlier = [](const incoming& a, const incoming& b) { return a.at < b.at; };
    if (all.size() > 1 && !std::is_sorted(all.begin(), all.end(), earlier))
      std::stable_sort(all.begin(), all.end(), earlier);
  }

  void assign_node(int r) {
    const auto cards = std::size_t(net_.cards_per_node);
    of(r).node = r / net_.ranks_per_node;
    of(r).card =
        2 * ranks_ + std::size_t(of(r).node) * cards + std::size_t(r % net_.ranks_per_node) * cards / per_node();
  }
  void check() const {
    const auto require = [](bool fine, const char* what) {
      if (!fine) throw std::invalid_argument(std::string{"kolo::simulate: "} + what);
    };
    constexpr double most = std::numeric_limits<double>::max();
    require(net_.ranks_per_node >= 0 && net_.cards_per_node >= 0,
            "ranks_per_node and cards_per_node are numbers from 0 on");
    require(net_.cards_per_node == 0 || two_levels(), "cards_per_node needs ranks_per_node");
    for (const kolo::simulate::link& l : {outside_, net_.inside})
      for (const double x :
           {l.latency, l.overhead, l.gap, l.seconds_per_byte, net_.seconds_per_byte_reduced, net_.noise})
        require(x >= 0 && x <= most, "a network's times, and its noise, are finite and not negative");
    for (const kolo::simulate::straggler& s : net_.stragglers)
      require(s.rank >= 0 && s.factor >= 0 && s.factor <= most, "a straggler has a rank and a factor, not negative");
  }

  kolo::simulate::network net_;
  kolo::simulate::link outside_;
  std::vector<processor> processors_;
  std::vector<port> ports_{};  // every rank's to the network, every rank's inside its node, then cards
  std::size_t ranks_;
};

}  // namespace kolo::inline KOLO_ABI::detail::simulate
