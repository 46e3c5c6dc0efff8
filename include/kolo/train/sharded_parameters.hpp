// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A sharded model (ZeRO-3): every rank keeps one part of parameters, gradients and optimizer state. Opt-in.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/train/background.hpp>
#include <kolo/train/order_of_uses.hpp>
#include <kolo/train/overlap.hpp>
#include <kolo/train/sharded.hpp>
#include <kolo/train/sharded_group.hpp>
#include <kolo/train/update.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Options of `sharded_parameters`.
struct sharded_parameters_options {
  int ahead = 1;                 ///< groups that are gathered while others are in use; 0: `use` gathers each
  background* helper = nullptr;  ///< a user's thread that progresses exchanges while a group is in use; nothing else
                                 ///< may use the communicator then
};

/// kolo::sharded_parameters shards{comm, kolo::update::adamw{...}, groups [, options]};
///
/// All ranks construct it together. `groups`: pointers to tensors, for example a group for each layer. Rank r keeps the
/// r-th of p equal parts of each group's values, gradients and state, and whole groups only while they are in use:
///
///     shards.initialise([&](std::size_t g) { fill(model.layers[g]); });  // the same on every rank
///     for (auto& layer : model.layers) { auto used = shards.use(layer.group); layer.forward(); }
///     for (auto& layer : backwards(model.layers)) {
///       auto used = shards.use_with_gradients(layer.group);  // adds to gradient(); they are averaged and scattered
///       layer.backward();                                    // when `used` ends
///     }
///     shards.step();  // or shards.clip_by_global_norm(1.0) before it; shards.skip_step() in place of it
///
/// Groups are gathered ahead in the order of their last uses, which may be a loop without steps that evaluates the
/// model; the first time in ascending order, or descending with gradients. Tensors are contiguous in buffers of this
/// class, without a copy: 1 + `ahead` buffers of values if one group is in use at a time, and two of gradients, each as
/// long as the longest group. All ranks make the same calls. If sums are exact, the bits are those of a
/// `sharded_optimizer`. `save_sharded_checkpoint` and `load_sharded_checkpoint` take it, on any number of ranks.
///
/// Cost    in a step each rank sends and receives (p-1)/p of a group's values each time it is gathered, and as much of
///         its gradients once.
/// Errors  mismatch: at construction, ranks differ in groups, in sizes of their tensors, or in `ahead`; later, one rank
///         makes or skips a step alone.
///         invalid_argument: a group that does not exist or has no elements; a tensor that is listed twice; two
///         backward passes of one group in a step; a call that ends a step, or initialise, while a group is in use;
///         on this rank alone, if the helper has another optimizer's exchange. Those of the collectives.
template <class Comm, class Rule, class T = float>
class sharded_parameters {
  using wire_type = typename Comm::transport_type;
  using group = detail::train::sharded_group<T, wire_type>;

 public:
  /// A layer's group while it is in use; the destructor ends the use.
  class [[nodiscard]] used {
   public:
    used(used&& o) noexcept
        : owner_{std::exchange(o.owner_, nullptr)}, group_{o.group_}, with_{o.with_}, exceptions_{o.exceptions_} {}
    used& operator=(used&&) = delete;
    /// Does not throw: the next call throws its error. Exchanges nothing while an exception unwinds the stack.
    ~used() {
      if (owner_) owner_->end(group_, with_, std::uncaught_exceptions() > exceptions_);
    }

   private:
    friend class sharded_parameters;
    used(sharded_parameters& o, std::size_t g, bool with) : owner_{&o}, group_{g}, with_{with} {}
    sharded_parameters* owner_;
    std::size_t group_;
    bool with_;
    int exceptions_ = std::uncaught_exceptions();
  };

  sharded_parameters(Comm& comm, Rule rule, const std::vector<std::vector<sharded_tensor<T>*>>& groups,
                     const sharded_parameters_options& options = {})
      : comm_{comm}, inner_{std::move(rule)}, options_{options} {
    const auto p = std::size_t(comm.size()), r = std::size_t(comm.rank());
    detail::train::check_before_comparison(comm_, [&] { detail::train::check_groups(groups); });
    for (const auto& tensors : groups) {
      const group& g = groups_.emplace_back(tensors, p, Rule::states);
      buffers_.make_room_for(g.part * p);
      const std::size_t first = std::min(r * g.part, g.elements);
      const extent own{first, std::min(g.part, g.elements - first)};  // of all of its tensors side by side
      std::size_t at = 0;
      for (const auto* t : tensors) {
        detail::train::add_slice<T>(slices_, tensor_steps_.size(), {at, t->size()}, groups_.size() - 1, own);
        at += t->size();
        tensor_steps_.push_back(0);
      }
    }
    compare();
  }
  sharded_parameters(const sharded_parameters&) = delete;
  sharded_parameters& operator=(const sharded_parameters&) = delete;
  ~sharded_parameters() {
    try {
      if (std::uncaught_exceptions() > exceptions_) take_back();
      else finish_all();
    } catch (...) {  // ranks that wait for this exchange detect the failure in another call
    }
  }

  /// Collective: fill(g) writes the values of group g, whose tensors are whole during the call, equally on every rank.
  /// If it throws, that group and all later ones keep their values.
  void initialise(auto fill) {
    take_back();
    demand_no_use("initialise");
    share_values();  // discards groups that were gathered ahead
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      group& g = groups_[i];
      g.whole = buffers_.take();
      std::fill_n(g.whole.get(), g.part * size(), T{});
      g.show_values();
      detail::core::with_rollback([&] { fill(i); }, [&] { drop(g); });
      std::copy_n(g.whole.get() + g.part * std::size_t(comm_.rank()), g.part, g.values.data());
      drop(g);
    }
  }

  /// Collective: the group's tensors are whole until the returned object is destroyed.
  used use(std::size_t g) { return begin(g, false); }
  /// The same with gradients, which are zero at first.
  used use_with_gradients(std::size_t g) { return begin(g, true); }

  /// Collective: updates this rank's part with the mean of all ranks' gradients. A group without a backward pass in
  /// this step keeps its values and does not count the step. An exception of the rule is thrown when the step has
  /// ended; the rest of this rank's part was then not updated.
  void step() {
    end_step("step", [this] {
      ++steps_;
      for (const auto& s : slices_)
        if (group& g = groups_[s.bucket]; g.has_gradients)
          detail::train::apply(inner_, std::span<T>{g.values}, std::span<T>{g.gradients}, g.states, ++steps_of(s),
                               {s.offset, s.count});
    });
  }
  /// Collective, after all backward passes of a step and before it: as kolo::clip_by_global_norm. `limit` must be equal
  /// on all ranks.
  double clip_by_global_norm(double limit) {
    take_back();
    demand_no_use("clip_by_global_norm");
    finish_scatters_beyond(0);
    const auto mine = calls();
    const auto each = [&](auto f) {
      for (group& g : groups_)
        if (g.has_gradients) f(std::span<T>{g.gradients});
    };
    return detail::train::clip(each, limit, [&](auto numbers, auto op) { kolo::allreduce(comm_, numbers, op); });
  }
  /// Collective, instead of `step`, if the norm is not finite: drops the gradients, and counts no step.
  void skip_step() {
    end_step("skip_step", [] {});
  }

  const Rule& inner() const { return inner_; }
  Rule& inner() { return inner_; }  ///< for example to set its learning rate
  Comm& comm() { return comm_; }
  /// The bytes that this rank keeps: parameters, gradients and state, and the buffers of whole groups.
  std::size_t bytes() const {
    std::size_t all = buffers_.elements();
    for (const group& g : groups_) all += g.values.size() + g.gradients.size() + g.states.size();
    return all * sizeof(T);
  }

  // For checkpoints, as in sharded_optimizer:
  /// This rank's slices.
  const std::vector<detail::train::owned_slice>& slices() const { return slices_; }
  long& steps() { return steps_; }  ///< how many were taken
  /// In how many of them a slice was updated.
  long& steps_of(const detail::train::owned_slice& s) { return tensor_steps_[s.parameter]; }
  /// The bytes of values first ... first + count - 1 of a slice.
  std::vector<std::span<std::byte>> values_of(const detail::train::owned_slice& s, std::size_t first,
                                              std::size_t count) {
    take_back();
    return {std::as_writable_bytes(std::span{groups_[s.bucket].values}.subspan(s.offset + first, count))};
  }
  /// The bytes of their k-th state.
  std::span<std::byte> state_of(const detail::train::owned_slice& s, std::size_t k, std::size_t first,
                                std::size_t count) {
    group& g = groups_[s.bucket];
    return std::as_writable_bytes(std::span{g.states}.subspan(k * g.part + s.offset + first, count));
  }
  /// The number of elements of all tensors.
  std::size_t elements() const {
    std::size_t all = 0;
    for (const group& g : groups_) all += g.elements;
    return all;
  }
  /// Throws if a checkpoint is loaded while a group is in use.
  void expect_load() {
    take_back();
    demand_no_use("a load");
  }
  /// Collective, after slices have been set, while no group is in use: discards gathered values and gradients.
  void share_values() {
    finish_all();
    demand_no_use("share_values");
    for (group& g : groups_) drop(g), g.has_gradients = false;
  }

 private:
  /// Compares the ranks: ranks that differ would take the parts of others for other elements.
  void compare() {
    detail::core::digest mine{std::uint64_t(options_.ahead)};
    for (const group& g : groups_) {
      mine.add(g.tensors.size());
      for (const auto* t : g.tensors) mine.add(t->size());
    }
    if (!detail::train::are_alike(comm_, mine.value))
      throw error{
          errc::mismatch,
          "kolo::sharded_parameters: ranks differ in the groups, in sizes of their tensors, or in options.ahead"};
    number_ = detail::train::number_of_optimizer(*comm_.engine());
  }
  std::size_t size() const { return std::size_t(comm_.size()); }
  /// A guard like that of `bucket_queue::calls`.
  detail::train::calls_of<wire_type> calls() { return {*comm_.engine(), number_, steps_}; }
  [[noreturn]] void refuse(const std::string& what) {
    detail::execute::refuse(*comm_.engine(), "sharded_parameters", what.c_str());
  }
  void demand_no_use(const std::string& what) {
    for (const group& g : groups_)
      if (g.users > 0) refuse(what + " comes after all uses have ended");
  }

  void drop(group& g) {
    g.hide_values();
    buffers_.recycle(std::move(g.whole));
  }
  void drop_gradients(group& g) { buffers_.recycle(std::move(g.whole_gradients)); }

  void end_step(const char* name, auto update) {
    take_back();
    demand_no_use(name);
    finish_scatters_beyond(0);
    for (group& g : groups_) g.finish_gather(), drop(g);
    try {
      update();
    } catch (...) {  // the step ends nevertheless: other ranks do not detect the exception
      thrown_ = std::current_exception();
    }
    for (group& g : groups_) g.has_gradients = false;
    order_.came(order_.end_of_step);
    gather_ahead();
    take_back();  // only throws that exception
  }

  used begin(std::size_t i, bool with_gradients) {
    take_back();
    if (options_.helper) options_.helper->demand_free();
    if (i >= groups_.size()) refuse("there is no such group");
    group& g = groups_[i];
    if (with_gradients && (g.has_gradients || g.whole_gradients))
      refuse("a second backward pass of a group in one step");
    order_.came(order_.use_of(i, with_gradients));
    for (std::size_t k = 0; k < groups_.size(); ++k)  // gathered ahead, but the order of uses has changed
      if (group& other = groups_[k]; k != i && other.whole && other.users == 0 && !is_needed_soon(k, options_.ahead))
        other.finish_gather(), drop(other);
    start_gather(g);
    g.finish_gather();
    g.show_values();
    ++g.users;
    used made{*this, i, with_gradients};  // ends if the rest throws
    if (with_gradients) {
      finish_scatters_beyond(1);
      g.whole_gradients = buffers_.take();
      std::fill_n(g.whole_gradients.get(), g.part * size(), T{});
      g.show_gradients();
    }
    gather_ahead();
    lend();
    return made;
  }
  void end(std::size_t i, bool with_gradients, bool unwinds) noexcept {
    try {
      group& g = groups_[i];
      if (with_gradients) g.hide_gradients();
      if (--g.users == 0) g.hide_values();
      take_back();
      if (!unwinds) return done(i, with_gradients);
      if (with_gradients) drop_gradients(g);
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  void done(std::size_t i, bool with_gradients) {
    group& g = groups_[i];
    if (with_gradients) {
      const auto mine = calls();
      g.scatter.emplace(start_reduce_scatter(comm_, std::span<const T>{g.whole_gradients.get(), g.part * size()},
                                             std::span<T>{g.gradients}, average));
      scattering_.push_back(i);
      g.has_gradients = true;
    }
    if (g.users == 0 && !is_needed_soon(i, std::max(options_.ahead, 1))) drop(g);
    gather_ahead();
    lend();
  }

  bool is_needed_soon(std::size_t i, int n) const {
    bool found = false;
    order_.each_soon(groups_.size(), n, [&](std::size_t g) { found |= g == i; });
    return found;
  }
  void gather_ahead() {
    order_.each_soon(groups_.size(), options_.ahead, [&](std::size_t g) { start_gather(groups_[g]); });
  }
  void start_gather(group& g) {
    if (g.whole) return;
    g.whole = buffers_.take();
    const auto mine = calls();
    const std::span<T> whole{g.whole.get(), g.part * size()};
    detail::core::with_rollback([&] { g.gather.emplace(start_allgather(comm_, std::span<const T>{g.values}, whole)); },
                                [&] { drop(g); });
  }
  /// Waits for the oldest reduce_scatters, except the last `left`.
  void finish_scatters_beyond(std::size_t left) {
    while (scattering_.size() > left) {
      group& g = groups_[scattering_.front()];
      g.finish_scatter();
      drop_gradients(g);
      scattering_.erase(scattering_.begin());
    }
  }
  void finish_all() {
    take_back();
    finish_scatters_beyond(0);
    for (group& g : groups_) g.finish_gather();
  }

  /// If a group is in use, the helper progresses the exchanges until the next call, unless another thread's optimizer
  /// has taken it since `begin`.
  void lend() {
    const auto is_used = [](const group& g) { return g.users > 0; };
    if (!options_.helper || is_lent_ || std::none_of(groups_.begin(), groups_.end(), is_used)) return;
    is_lent_ = options_.helper->try_lend(
        [](void* self) {
          auto& all = *static_cast<sharded_parameters*>(self);
          for (group& g : all.groups_) g.finish_gather(), g.finish_scatter();
        },
        this);
  }
  void take_back() {
    if (std::exchange(is_lent_, false)) options_.helper->take_back(std::chrono::seconds{60});
    if (thrown_) detail::core::rethrow(std::exchange(thrown_, nullptr));
  }

  Comm& comm_;
  Rule inner_;
  sharded_parameters_options options_;
  std::vector<group> groups_{};
  std::vector<detail::train::owned_slice> slices_{};
  std::vector<long> tensor_steps_{};  ///< updates of each tensor, in group order; only of those in `slices_`
  detail::train::group_buffers<T> buffers_{};
  std::vector<std::size_t> scattering_{};  // groups whose gradients are being scattered
  detail::train::order_of_uses order_{};
  std::uint32_t number_ = 0;  ///< of this object on its communicator
  long steps_ = 0;
  bool is_lent_ = false;
  std::exception_ptr thrown_{};  // by the end of a use, or by the rule
  int exceptions_ = std::uncaught_exceptions();
};

template <class Comm, class Rule, class T>
sharded_parameters(Comm&, Rule, const std::vector<std::vector<sharded_tensor<T>*>>&,
                   const sharded_parameters_options& = {}) -> sharded_parameters<Comm, Rule, T>;

}  // namespace kolo::inline KOLO_ABI
