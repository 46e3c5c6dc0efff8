// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training over slow links (DiLoCo, local SGD): ranks take local steps, and average their progress every few steps.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/train/outer_part.hpp>
#include <kolo/train/overlap.hpp>
#include <kolo/train/typed_exchange.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Options of an outer optimizer. They must be equal on every rank.
struct outer_options {
  int every = 1;      ///< steps between two exchanges of a parameter
  int fragments = 1;  ///< equal parts of all elements, exchanged at different steps to even the load of a link
  int delay = 0;      ///< local steps during the exchange of a fragment; 0: step() waits for it
  /// Merge: value = blend * value + (1 - blend) * outer value. 0: the outer value replaces it, and the steps of the
  /// delay are lost
  double blend = 0;
  background* helper = nullptr;  ///< progresses exchanges between steps (train/background.hpp)
};

/// outer_optimizer outer{comm, update::nesterov{...}, parameters [, op] [, algorithm] [, options]};
///
/// For links too slow to exchange gradients in every step. Each rank has its own inner optimizer, and calls
///
///     inner.step(i, p.value, p.gradient);  // for each parameter, with this rank's gradients
///     outer.step();
///
/// A rank that skips a step of the inner optimizer, because its gradients have overflowed, still calls outer.step().
///
/// The outer optimizer keeps its own values, bitwise equal on every rank. At every `every`-th step it starts to average
/// the ranks' pseudo-gradients: the outer value minus the rank's value. `delay` steps later its rule updates the outer
/// values with the averaged pseudo-gradient, and merges them into the model (`blend`). Of the F = `fragments` equal
/// parts of all elements each is exchanged every / F steps after the one before; a tensor may span several. Op defaults
/// to `average`; `wire<bfloat16>(average)` halves the bytes.
///
/// Before  all ranks construct it together, with equal values (`broadcast_parameters`), and take equally many steps.
///         Rule and op must be equal on all ranks; they are not compared. To resume, all ranks then load a checkpoint
///         of the same step: the values (`load_checkpoint`) and this optimizer's state (`load_state`); values alone are
///         not enough. Communicator and tensors must outlive it and keep their addresses. Gradients are not read, and
///         local parameters not exchanged. With a helper nothing else may use the communicator from one step() to the
///         next while a fragment is being exchanged.
/// After   finish(): every rank has the outer values. Otherwise values differ between ranks by their local steps.
/// Cost    for parameters of n bytes: an allreduce of n / F bytes when a fragment is due, on average n / `every` bytes
///         per step. Memory: 2n and the rule's states.
/// Errors  mismatch: at construction, ranks differ in options, parameters or initial values; when a state is read, it
///         is of other parameters; at the next exchange, ranks have read states of different steps, or the rule has
///         thrown on some ranks only. invalid_argument: invalid options, parameters that share elements; on this
///         rank alone, if the helper has another optimizer's exchange. Those of `kolo::allreduce`, from the call that
///         detects them.
/// Source  Douillard et al., "DiLoCo: distributed low-communication training of language models", arXiv 2311.08105;
///         fragments, delay and blend: "Streaming DiLoCo with overlapping communication", arXiv 2501.18512.
template <class Comm, class Rule, class Range, class Algorithm = automatic, class Op = average_t>
class outer_optimizer {
  static_assert(AnyParameters<Range>,
                "kolo: parameters are a range of items with .value and .gradient, of one element type, or "
                "kolo::mixed_parameters of such ranges");
  static_assert(detail::schedule::leaves_of<std::remove_cv_t<Algorithm>> == 0,
                "kolo: order::tree<L> averages over L, an outer optimizer over its ranks");
  using part = detail::train::per_element<detail::train::outer_part, Range>;

 public:
  outer_optimizer(Comm& comm, Rule rule, Range&& parameters, const outer_options& o = {})
      : outer_optimizer(comm, std::move(rule), std::forward<Range>(parameters), Op{}, Algorithm{}, o) {}
  template <detail::collective::AnyAlgorithm A>
  outer_optimizer(Comm& comm, Rule rule, Range&& parameters, A algorithm, const outer_options& o = {})
      : outer_optimizer(comm, std::move(rule), std::forward<Range>(parameters), Op{}, std::move(algorithm), o) {}
  template <AnyOperator O>
  outer_optimizer(Comm& comm, Rule rule, Range&& parameters, O op, const outer_options& o = {})
      : outer_optimizer(comm, std::move(rule), std::forward<Range>(parameters), std::move(op), Algorithm{}, o) {}
  outer_optimizer(Comm& comm, Rule rule, Range&& parameters, Op op, Algorithm algorithm, const outer_options& o = {})
      : comm_{comm}, rule_{std::move(rule)}, op_{std::move(op)}, algorithm_{std::move(algorithm)}, options_{o} {
    detail::train::check_before_comparison(comm_, [&] {
      check(o);
      make_parts(parameters);
    });
    compare();
  }
  outer_optimizer(const outer_optimizer&) = delete;
  outer_optimizer& operator=(const outer_optimizer&) = delete;
  ~outer_optimizer() {
    try {
      take_back();
    } catch (...) {  // NOLINT: the communicator keeps the cause
    }
  }

  /// Call it after each step of the inner optimizer. Returns true if a fragment was merged.
  bool step() {
    take_back();
    if (options_.helper && options_.delay > 0) options_.helper->demand_free();
    ++steps_;
    bool merges = false;
    for (std::size_t f = 0; f < rounds_.size(); ++f)
      if (is_due(f, steps_)) start(f);
    for (std::size_t f = 0; f < rounds_.size(); ++f)
      if (is_due(f, steps_ - options_.delay) && rounds_[f].is_in_flight) arrive(f, options_.blend), merges = true;
    for (auto& r : requests_)
      if (r) r->test();
    lend();
    return merges;
  }

  /// Collective, for example after the last step: exchanges the remaining fragments, after which every rank has the
  /// outer values. A round of fewer than `every` steps gets a whole outer step. A second call does nothing.
  void finish() {
    take_back();
    for (std::size_t f = 0; f < rounds_.size(); ++f)
      if (rounds_[f].begun < steps_) start(f);
    for (std::size_t f = 0; f < rounds_.size(); ++f) {
      if (rounds_[f].is_in_flight) arrive(f, 0);
      else each_part(f, [](std::size_t, auto& p) { p.merge(0); });
    }
  }

  Rule& rule() { return rule_; }         ///< the outer optimizer's rule
  long steps() const { return steps_; }  ///< local steps so far

  /// See `broadcast_object`, which with a helper requires that no fragment is being exchanged. Waits for exchanges in
  /// progress.
  void serialise(auto& archive) {
    take_back();
    for (auto& r : requests_)
      if (r) r->wait();
    std::vector<std::uint64_t> shape{Rule::states, rounds_.size()};
    for (auto& p : parts_)
      detail::train::on([&](auto& one) { shape.push_back(one.outer.size() * sizeof(one.outer[0])); }, p);
    auto given = shape;
    archive(given);
    if (given != shape) throw error{errc::mismatch, "the state of an outer optimizer of other parameters or fragments"};
    archive(steps_, rounds_);
    if (archive.reads) throws_ = 0;
    for (std::size_t f = 0; f < rounds_.size(); ++f)
      each_part(f, [&](std::size_t, auto& p) {
        archive(p.outer, p.states);
        if (rounds_[f].is_in_flight) archive(p.difference);
      });
  }

 private:
  struct round {                                  ///< exchanges of a fragment
    long count = 0, begun = 0, is_in_flight = 0;  ///< number; step of the last one; whether it is not merged yet
  };

  static void check(const outer_options& o) {
    if (o.every < 1 || o.fragments < 1 || o.fragments > o.every || o.delay < 0 || o.delay >= o.every)
      throw error{errc::invalid_argument,
                  "an outer optimizer takes 1 <= fragments <= every, and 0 <= delay < every: each fragment has a step "
                  "of its own, and arrives before its next exchange"};
    if (!(o.blend >= 0 && o.blend < 1))
      throw error{errc::invalid_argument, "options.blend is at least 0, and less than 1, where nothing is learned"};
  }
  /// Makes the parts: for each range of parameters all fragments.
  void make_parts(std::remove_reference_t<Range>& parameters) {
    const detail::train::local_gradients local{detail::train::tensors_of<Op>(parameters),
                                               detail::train::traits_of_operator(op_), comm_.size()};
    local.refuse_shared_values();
    rounds_.resize(std::size_t(options_.fragments));
    using ranges = typename detail::train::ranges_of<std::remove_reference_t<Range>>::type;
    for (std::size_t k = 0; k < std::tuple_size_v<ranges>; ++k) {
      std::vector<std::size_t> which;
      for (std::size_t i = 0; i < local.size(); ++i)
        if (local.tensor(i).range == k && !local.tensor(i).is_local) which.push_back(i);
      detail::train::with_tensors<Range, Op>(local, k, which, [&](auto index, const auto& values, const auto&) {
        for (int f = 0; f < options_.fragments; ++f) {
          const extent e = block(values.size(), options_.fragments, f);
          parts_.emplace_back(std::in_place_index<index>, values.part(e.first, e.count), Rule::states);
        }
      });
    }
    requests_.resize(parts_.size());
  }

  /// Compares the ranks: values of ranks that differ would diverge, and no call would detect it.
  void compare() {
    detail::core::digest mine{std::bit_cast<std::uint64_t>(options_.blend)};
    mine.add(options_.every, options_.fragments, options_.delay);
    for (auto& p : parts_)
      detail::train::on([&](auto& one) { mine.add(one.outer.size()), mine.add_bytes(one.outer); }, p);
    if (!detail::train::are_alike(comm_, mine.value))
      throw error{errc::mismatch,
                  "ranks differ in the values that they begin with (kolo::broadcast_parameters comes before), in "
                  "number or sizes of their parameters, or in the options"};
    number_ = detail::train::number_of_optimizer(*comm_.engine());
  }

  /// Calls f(index, part) for the fragment's part of each range of parameters that has one.
  void each_part(std::size_t fragment, auto f) {
    for (std::size_t i = fragment; i < parts_.size(); i += rounds_.size())
      detail::train::on([&](auto& p) { p.outer.empty() ? void() : f(i, p); }, parts_[i]);
  }

  bool is_due(std::size_t f, long step) const {
    const long every = options_.every, own = every * (long(f) + 1) / options_.fragments;
    return step % every == own % every;
  }

  void start(std::size_t f) {
    if (rounds_[f].is_in_flight) arrive(f, options_.blend);  // if a state of other options was read, or in finish
    const detail::train::calls_of mine{*comm_.engine(), number_, steps_ + (throws_ << 16)};
    each_part(f, [&](std::size_t i, auto& p) {
      p.subtract(comm_.size() > 1 ? 1.0 / detail::train::divisor_before(op_) : 1.0);
      const std::span travels{p.difference};
      if (requests_[i]) requests_[i]->restart();
      else requests_[i].emplace(start_allreduce(comm_, travels, op_, algorithm_));
    });
    rounds_[f] = {rounds_[f].count + 1, steps_, 1};  // not if a part could not start
  }
  void arrive(std::size_t f, double blend) {
    each_part(f, [&](std::size_t i, auto&) { requests_[i] ? requests_[i]->wait() : void(); });
    rounds_[f].is_in_flight = 0;  // also if the rule throws
    const auto update = [&](std::size_t, auto& p) {
      p.update(rule_, rounds_[f].count);
      p.merge(blend);
    };
    detail::core::with_rollback([&] { each_part(f, update); }, [&] { ++throws_; });
  }

  /// Lends the exchanges to the helper until the next call, unless another thread's optimizer has taken it since `step`
  /// began.
  void lend() {
    const auto is_in_flight = [](const round& r) { return r.is_in_flight != 0; };
    if (!options_.helper || std::none_of(rounds_.begin(), rounds_.end(), is_in_flight)) return;
    limit_ = detail::execute::time_limit(*comm_.engine());
    is_lent_ = options_.helper->try_lend([](void* self) { static_cast<outer_optimizer*>(self)->carry_on(); }, this);
  }
  /// Runs on the helper until all exchanges have ended or the next call takes them back.
  void carry_on() {
    constexpr std::chrono::microseconds between_polls{100};
    const auto has_ended = [](auto& r) { return !r || r->test(); };
    while (!std::all_of(requests_.begin(), requests_.end(), has_ended) &&
           !options_.helper->is_cancelled_within(between_polls)) {
    }
  }
  void take_back() {
    if (std::exchange(is_lent_, false)) options_.helper->cancel(limit_);
  }

  Comm& comm_;
  Rule rule_;
  Op op_;
  Algorithm algorithm_;
  outer_options options_;
  std::vector<part> parts_{};
  std::vector<std::optional<request<typename Comm::transport_type>>> requests_{};
  std::vector<round> rounds_{};
  std::uint32_t number_ = 0;     ///< of this optimizer on its communicator
  long steps_ = 0, throws_ = 0;  ///< throws_: of the rule
  bool is_lent_ = false;
  std::chrono::nanoseconds limit_{};  ///< for taking the exchanges back, also if the communicator was moved away
};

template <class Comm, class Rule, class Range>
outer_optimizer(Comm&, Rule, Range&&, const outer_options& = {}) -> outer_optimizer<Comm, Rule, Range>;
template <class Comm, class Rule, class Range, detail::collective::AnyAlgorithm A>
outer_optimizer(Comm&, Rule, Range&&, A, const outer_options& = {}) -> outer_optimizer<Comm, Rule, Range, A>;
template <class Comm, class Rule, class Range, AnyOperator Op>
outer_optimizer(Comm&, Rule, Range&&, Op, const outer_options& = {})
    -> outer_optimizer<Comm, Rule, Range, automatic, Op>;
template <class Comm, class Rule, class Range, AnyOperator Op, detail::collective::AnyAlgorithm A>
outer_optimizer(Comm&, Rule, Range&&, Op, A, const outer_options& = {}) -> outer_optimizer<Comm, Rule, Range, A, Op>;

}  // namespace kolo::inline KOLO_ABI
