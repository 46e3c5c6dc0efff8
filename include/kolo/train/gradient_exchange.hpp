// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base of the replicated and the sharded optimizer: the exchange of buckets, joined ranks, and the checks of misuse.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/core/own_header.hpp>
#include <kolo/train/leaf_sums.hpp>
#include <kolo/train/local_gradients.hpp>
#include <kolo/train/options.hpp>
#include <kolo/train/overlap.hpp>
#include <kolo/train/sparse.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::core::own_header {
template <class T>
  requires true inline constexpr bool includes_kolo_train_hpp<T> = true;
}  // namespace detail::core::own_header

namespace detail::train {

/// std::variant<Each<T>...> over the element types of the ranges that `Range` consists of.
template <template <class> class Each, class Ranges>
struct for_elements;
template <template <class> class Each, class... R>
struct for_elements<Each, std::tuple<R...>> {
  using type = std::variant<Each<view_element_t<decltype((std::declval<item_of<R>>().gradient))>>...>;
};
template <template <class> class Each, class Range>
using per_element = typename for_elements<Each, typename ranges_of<std::remove_reference_t<Range>>::type>::type;

/// `Self` is the derived optimizer. It has, for bucket b:
///
/// * `begin_step()`: called before a `step()` exchanges the gradients that have not been exchanged yet; `refuse_step()`
///   if that throws
/// * `pack(b)`: called before each `start(b)`, after each of the bucket's gradients was prepared
/// * `start(b)`: returns a request for the exchange, a collective of kind K
/// * `arrived(b, factor)`: called when the exchange has ended; the gradients must still be multiplied by `factor`
/// * `arrived_by_leaves(b, sums)`: the same with `options.leaves`
/// * `update_early(b)`: called after that, only in a `step()`: the bucket's parameters may be updated now
/// * `update()`: called when all buckets are exchanged; updates the parameters that are not updated yet
/// * `drop()`: called when all buckets are exchanged and nothing is updated
template <class Self, kind K, class Comm, class Inner, class Range, class Algorithm, class Op>
class gradient_exchange {
  static_assert(AnyParameters<Range>,
                "kolo: parameters are a range of items with .value and .gradient, of one element type, or "
                "kolo::mixed_parameters of such ranges");
  static_assert(schedule::leaves_of<std::remove_cv_t<Algorithm>> == 0,
                "kolo: order::tree<L> averages over L, an optimizer over its ranks: set options.leaves instead");

 public:
  gradient_exchange(Comm& comm, Inner inner, Range&& parameters, const optimizer_options& o = {})
      : gradient_exchange(comm, std::move(inner), std::forward<Range>(parameters), Op{}, Algorithm{}, o) {}
  template <collective::AnyAlgorithm A>
  gradient_exchange(Comm& comm, Inner inner, Range&& parameters, A algorithm, const optimizer_options& o = {})
      : gradient_exchange(comm, std::move(inner), std::forward<Range>(parameters), Op{}, std::move(algorithm), o) {}
  template <AnyOperator O>
  gradient_exchange(Comm& comm, Inner inner, Range&& parameters, O op, const optimizer_options& o = {})
      : gradient_exchange(comm, std::move(inner), std::forward<Range>(parameters), std::move(op), Algorithm{}, o) {}
  gradient_exchange(Comm& comm, Inner inner, Range&& parameters, Op op, Algorithm algorithm,
                    const optimizer_options& o = {})
      : comm_{comm},
        inner_{std::move(inner)},
        parameters_{std::forward<Range>(parameters)},
        algorithm_{std::move(algorithm)},
        options_{o},
        local_{check_before_comparison(comm,
                                       [&] {
                                         const int passes = passes_of<Op, Algorithm>(comm, o);
                                         return local_gradients<Range, Op>{parameters_,  std::move(op),
                                                                           comm.size(),  passes,
                                                                           o.leaves > 0, o.error_feedback};
                                       })},
        plan_{local_.template plan<K>(comm, {.cap_bytes = o.bucket_bytes, .groups = o.groups}, packed_options(o))},
        queue_{*comm.engine(), *this, plan_, local_.size(), o.helper} {
    if (o.leaves > 0) make_leaf_sums();
  }
  gradient_exchange(const gradient_exchange&) = delete;
  gradient_exchange& operator=(const gradient_exchange&) = delete;

  /// Call it when the backward pass has completed gradient `index`, which it must not access again before the step
  /// ends. A bucket's exchange starts when all of its gradients are complete and the buckets before it have started.
  /// With options.passes, call it in each pass of a step, or in none.
  void ready(std::size_t index) {
    demand(local_.refuses_ready(parameters_, index, queue_));
    if (local_.is_last_pass()) queue_.begin();
    local_.mark_ready(index);
    if (local_.is_last_pass()) queue_.mark(index);
    else local_.mark(index);
  }

  /// Progresses started exchanges; never waits. Calling it is optional: `ready` and a helper progress them, too.
  void progress() { queue_.progress(); }

  /// Waits until all gradients are exchanged, and updates nothing: for work before the update, such as clipping.
  void synchronize() {
    demand_last_leaf();
    if (!local_.is_last_pass())
      refuse(
          "synchronize comes after the last of options.passes backward passes: step() returns false after the others");
    demand(local_.refuses_exchange(parameters_, queue_));
    exchange([](std::size_t) {});
  }

  /// Call it after each backward pass. Exchanges the gradients, unless `synchronize` has done so, updates every
  /// parameter and returns true. Returns false and does nothing if more backward passes of the step follow.
  /// If the exchange of rows throws, the step is given up: the next backward pass begins another.
  bool step() {
    demand_last_leaf();
    if (leaves_given_ == 0 && end_pass()) return false;
    demand(local_.is_exchanged() ? local_.refuses_update() : local_.refuses_exchange(parameters_, queue_));
    exchange_and_update();
    return true;
  }

  /// Call it after `synchronize`, instead of `step`, on all ranks: updates nothing and counts no step, for example when
  /// gradients of a scaled loss have overflowed. All ranks must decide by an equal value, such as the norm that
  /// clipping returns. Also clears the residual of error feedback, which belongs to these gradients and their loss
  /// scale.
  void skip_step() {
    if (!local_.is_exchanged()) refuse("skip_step comes after synchronize, in place of step");
    drop_step();
  }

  /// With options.leaves: returns the micro-batches of a step that this rank computes, in this order.
  std::vector<int> leaves() const {
    std::vector<int> own;
    for (std::size_t i = 0; i < own_leaves().count; ++i) own.push_back(int(own_leaves().first + i));
    return own;
  }
  /// Call it after the backward pass of each leaf, then step() once. (Without leaves, step() follows each pass.)
  void leaf() {
    if (leaves_given_ == 0 && local_.has_passed()) refuse("leaf comes after each leaf of a step, or step() does");
    if (leaves_given_ == own_leaves().count)
      refuse(options_.leaves > 0 ? "a leaf after the last one of this rank: step comes before the next"
                                 : "a leaf needs options.leaves");
    if (++leaves_given_ < own_leaves().count) end_pass();
  }
  /// The same, and checks that `number` is the next leaf.
  void leaf(int number) {
    if (const extent own = own_leaves(); leaves_given_ < own.count && number != int(own.first + leaves_given_))
      refuse("leaf " + std::to_string(number) + " is not the next one of this rank's leaves()");
    leaf();
  }

  /// This rank has no more data: takes part in the steps of the others until no rank has data; its local parameters do
  /// not change. Returns the number of these steps. All ranks call it at the end of an epoch, and all return together,
  /// with the same parameters. Before: no backward pass has begun, and the last step is complete.
  std::size_t join() {
    return join_by([this] { exchange_and_update(); });
  }
  /// The same if the other ranks work between `synchronize` and `step` (clip, set a learning rate, skip the step):
  /// calls between(), which does that on this rank.
  template <class F>
  std::size_t join(F between) {
    return join_by([&] {
      exchange([](std::size_t) {});
      between();
      if (local_.is_exchanged()) update_all();
    });
  }
  /// Sets all gradients to zero; not between a backward pass and its step.
  void zero_gradients() {
    if (queue_.is_begun() || local_.has_begun())
      refuse("zero_gradients was called between the backward pass and the step");
    local_.zero(parameters_);
  }

  Inner& inner() { return inner_; }  ///< the wrapped optimizer or rule, for example to set its learning rate
  const bucket_plan& buckets() const { return plan_; }
  const overlap_report& overlap() const { return queue_.report(); }  ///< of the last exchange
  Comm& comm() { return comm_; }

  /// Reports this rank's misuse to the other ranks, too, after the helper has returned the communicator.
  [[noreturn]] void refuse(const std::string& sentence) {
    queue_.take_back(std::chrono::seconds{1});
    comm_.engine()->refuse("optimizer", sentence);
  }

 protected:
  using wire_type = typename Comm::transport_type;
  using queue = bucket_queue<wire_type, gradient_exchange>;
  ~gradient_exchange() = default;

  /// Called while no bucket is being exchanged.
  void drop_step() {
    self().drop();
    for (auto& sums : leaf_sums_) std::visit([](auto& s) { s.drop(); }, sums);
    local_.forget_rests();
    end_step();
  }

  Comm& comm_;
  Inner inner_;
  Range parameters_;
  Algorithm algorithm_;
  optimizer_options options_;
  local_gradients<Range, Op> local_;
  bucket_plan plan_;
  bool has_data_ = true;
  std::vector<per_element<leaf_sums, Range>> leaf_sums_{};          ///< of each bucket; none without options.leaves
  std::vector<request<typename Comm::transport_type>> gathered_{};  ///< allgathers of whole gradients, after the sums

 private:
  friend queue;
  Self& self() { return static_cast<Self&>(*this); }

  /// The options that must be equal on all ranks, as one number, which is compared together with the plan.
  static std::uint64_t packed_options(const optimizer_options& o) {
    return std::bit_cast<std::uint64_t>(o.density) + std::uint64_t(o.inputs) + (std::uint64_t(o.leaves) << 32);
  }
  void demand(const refusal& wrong) {
    if (wrong) refuse(*wrong);
  }
  extent own_leaves() const {
    return options_.leaves > 0 ? kolo::leaves{options_.leaves}.of(comm_.rank(), comm_.size()) : extent{};
  }
  void demand_last_leaf() {
    if (leaves_given_ > 0 && leaves_given_ < own_leaves().count)
      refuse("synchronize or step comes after the last of this rank's leaves()");
  }
  /// Ends a backward pass; returns whether more passes of this step follow.
  bool end_pass() {
    demand(local_.refuses_pass());
    if (!local_.end_pass()) return false;
    if (!leaf_sums_.empty()) take_leaves(), local_.zero(parameters_);
    return true;
  }

  void prepare(std::size_t b) {
    if (b == 0) prepare_join();
    for (const std::size_t i : plan_.buckets[b].parameters)  // before any of them is scaled
      if (const auto wrong = local_.refuses_zeroed(i)) comm_.engine()->refuse("optimizer", *wrong);
    for (const std::size_t i : plan_.buckets[b].parameters) local_.prepare(i);
    if (leaf_sums_.empty()) self().pack(b);
    else std::visit([](auto& sums) { sums.take(); }, leaf_sums_[b]);
  }
  request<wire_type> start(std::size_t b) {
    if (leaf_sums_.empty()) return self().start(b);
    return std::visit([this](auto& sums) { return sums.start(comm_); }, leaf_sums_[b]);
  }

  void make_leaf_sums() {
    for (std::size_t i = 0; i < local_.size(); ++i)
      if (const auto& t = local_.tensor(i); t.is_local || t.is_sparse)
        throw error{errc::invalid_argument, "options.leaves: " + t.name + " is local, or has rows"};
    for (const auto& b : plan_.buckets)
      local_.with_tensors(b.range, b.parameters, [&]([[maybe_unused]] auto index, const auto&, const auto& gradients) {
        using T = typename std::remove_cvref_t<decltype(gradients)>::element_type;
        if constexpr (!has_wire<Op>)  // passes_of refuses it
          leaf_sums_.emplace_back(std::in_place_index<index>, gradients, kolo::leaves{options_.leaves}, comm_.rank(),
                                  comm_.size(), make_kernel<T>(local_.op()));
      });
  }
  /// Called at the end of each leaf except this rank's last. The next leaf may add to its gradients, or replace them.
  void take_leaves() {
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) prepare(b);
  }

  /// Waits for the exchange of each bucket and calls then(b) after it.
  void exchange(auto then) {
    if (plan_.buckets.empty()) prepare_join();
    queue_.finish([&](std::size_t b) {
      if (leaf_sums_.empty()) self().arrived(b, left_to_multiply());
      else std::visit([&](auto& sums) { self().arrived_by_leaves(b, sums); }, leaf_sums_[b]);
      then(b);
    });
    for (auto& g : gathered_) g.wait();
    local_.prepare_others();
    const auto end_join = [&] {
      if (std::exchange(joins_begun_, false)) join_->wait();  // if all are local, no bucket waits for it
    };
    const auto give_up = [&] {
      drop_step();  // the other gradients are averages already: another step must not average them again
      if (!comm_.transport().failed()) end_join();
    };
    detail::core::with_rollback([&] { each_parameter(parameters_, [&](auto, auto& p) { exchange_rows_of(p); }); },
                                give_up);
    end_join();
    local_.mark_exchanged();
  }
  template <class P>
  void exchange_rows_of(P& p) {
    if constexpr (MayBeSparse<P>)
      if (row_list* const rows = rows_of(p); rows && !is_local(p)) {
        const auto mine = queue_.calls();
        exchange_rows(comm_, kolo::as_view(p.gradient), *rows, local_.op(), options_.density);
        if (const double factor = left_to_multiply(); factor != 1) scale(kolo::as_view(p.gradient), factor);
      }
  }
  void exchange_and_update() {
    if (!local_.is_exchanged()) {
      self().begin_step();
      detail::core::with_rollback([&] { exchange([this](std::size_t b) { self().update_early(b); }); },
                                  [&] { self().refuse_step(); });
    }
    update_all();
  }
  /// Ends the step even if the wrapped optimizer throws, so that the next step starts from the beginning.
  void update_all() {
    const struct at_end {
      gradient_exchange& self;
      ~at_end() { self.queue_.count_update(), self.end_step(); }
    } ends{*this};
    self().update();
  }
  void end_step() {
    local_.end_step();
    leaves_given_ = 0;
  }

  /// Calls take_part() in each step of the ranks that have data.
  std::size_t join_by(auto take_part) {
    if (options_.inputs == uneven::refused)
      refuse("join needs to be asked for: options.inputs = uneven::by_all or by_those_left");
    if (queue_.is_begun() || local_.has_begun() || local_.is_exchanged())
      refuse("join was called in the middle of a backward pass, or before the step that follows it");
    const struct without_data {
      bool& has;
      ~without_data() { has = true; }
    } until_the_end{has_data_ = false};
    for (std::size_t steps = 0;; ++steps) {
      local_.zero(parameters_);
      prepare_join();
      join_->wait();
      if (active_ == 0) return joins_begun_ = false, steps;
      take_part();
    }
  }

  /// Starts an allreduce of 8 bytes, before the first bucket, that counts the ranks with data.
  void prepare_join() {
    if (options_.inputs == uneven::refused || joins_begun_) return;
    active_ = has_data_ ? 1 : 0;
    if (join_) join_->restart();
    else join_.emplace(start_allreduce(comm_, std::span{&active_, 1}, sum));
    joins_begun_ = true;  // not if it could not start
  }
  /// Returns the factor that turns a mean over all ranks into one over the ranks with data; 1 if that is not asked for.
  double left_to_multiply() {
    if (!joins_begun_ || !reduce::divides<Op> || options_.inputs != uneven::by_those_left) return 1;
    join_->wait();
    return double(comm_.size()) / double(active_);
  }

  std::uint64_t active_ = 0;      ///< ranks that have data
  std::size_t leaves_given_ = 0;  ///< calls of leaf() in this step
  bool joins_begun_ = false;
  std::optional<request<wire_type>> join_{};

 protected:
  queue queue_;  ///< the derived class calls `end` before any member is destroyed
};

}  // namespace detail::train
}  // namespace kolo::inline KOLO_ABI
