// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A sharded optimizer (ZeRO-1): each rank keeps a part of the state, updates its slice of the parameters, and gathers
// the other ranks' slices.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/train/typed_exchange.hpp>
#include <kolo/train/update.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::train {

/// Elements of a parameter that this rank updates, and whose state it keeps.
struct owned_slice {
  std::size_t parameter = 0, first = 0, count = 0, element_bytes = 1;
  int digits = 0;                      ///< binary digits of an element: float 24, int32 31, without numeric_limits 0
  std::size_t bucket = 0, offset = 0;  ///< the bucket, and their offset in this rank's shard of it
  bool is_local = false;               ///< other ranks have their own parameter of this index
};

/// Adds the elements of a parameter that lie in this rank's part of a bucket, if any do. `tensor`: where the parameter
/// lies in the bucket; `own`: where this rank's part does.
template <class T>
void add_slice(std::vector<owned_slice>& all, std::size_t parameter, const extent& tensor, std::size_t bucket,
               const extent& own, bool is_local = false) {
  const std::size_t from = std::max(tensor.first, own.first),
                    to = std::min(tensor.first + tensor.count, own.first + own.count);
  if (from < to)
    all.push_back({parameter, from - tensor.first, to - from, sizeof(T), std::numeric_limits<T>::digits, bucket,
                   from - own.first, is_local});
}

/// Parameters that are updated together, as one vector, and this rank's part of it.
template <class T>
struct shard_of {
  shard_of(const bucket<T>& v, const bucket<T>& g, const extent& own, std::size_t state_count)
      : values{v},
        gradients{g},
        own_values{v.part(own.first, own.count)},
        own_gradients{g.part(own.first, own.count)},
        states(state_count * own.count) {}

  bucket<T> values, gradients, own_values, own_gradients;
  std::vector<T> states;  ///< state k of element i is states[k * n + i]
};

}  // namespace detail::train

/// sharded_optimizer optimizer{comm, update::adamw{...}, parameters [, op] [, algorithm] [, options]};
///
/// Each bucket of gradients is reduce-scattered in place; each rank updates its own block, and allgathers the
/// parameters. Buckets that `step` itself reduces are updated during the reduction, part by part, while they are in the
/// cache; buckets that were reduced before (`ready`, `synchronize`), means of `uneven::by_those_left`, and all if some
/// gradient has rows, are updated after it, with the same bits. Any number of ranks and elements: block r of a bucket
/// is kolo::block(n, p, r). Sends and receives as much as an allreduce; keeps 1/p of the state. `inner()` is the rule.
/// Otherwise as `distributed_optimizer`, except that after `synchronize` only this rank's slices of the gradients have
/// the mean. Gradients with rows are exchanged as there, and their values updated in slices like all others; local
/// parameters are updated on this rank alone. An exception of the rule is thrown at the end of step(), when all ranks
/// have this rank's slices; the rest of these was not updated.
///
/// The bits are those of `distributed_optimizer` with `replicated<Rule>` if the gradients have the same bits: with any
/// algorithm if sums are exact, and with those whose allreduce is their reduce_scatter and their allgather (ring,
/// circulant, two_shot) and equal buckets. Otherwise they agree up to rounding.
template <class Comm, class Rule, class Range, class Algorithm = automatic, class Op = average_t>
  requires detail::core::own_header::includes_kolo_train_hpp<Comm>
class sharded_optimizer : public detail::train::typed_exchange<sharded_optimizer<Comm, Rule, Range, Algorithm, Op>,
                                                               kind::reduce_scatter, Comm, Rule, Range, Algorithm, Op> {
  using base = detail::train::typed_exchange<sharded_optimizer, kind::reduce_scatter, Comm, Rule, Range, Algorithm, Op>;
  using views = detail::train::per_element<detail::train::shard_of, Range>;
  using typename base::hooks, typename base::leaf_sums, typename base::wire_type;

  struct bucket_shard {
    views parts;
    std::vector<std::size_t> counts{};  ///< of each rank's part; empty: local
    std::vector<extent> behind{};       ///< of this rank's part: reduced, and still to be updated
    sharded_optimizer* owner = nullptr;
    detail::execute::epilogue epilogue{};
  };

 public:
  using base::base;
  ~sharded_optimizer() { this->queue_.end(); }

  /// As kolo::clip_by_global_norm, after `synchronize`. Collective: ranks sum their slices, and exchange a few numbers.
  /// `limit` must be equal on all ranks.
  double clip_by_global_norm(double limit) {
    if (!this->local_.is_exchanged()) this->refuse("clip_by_global_norm comes after synchronize");
    const auto mine = this->queue_.calls();
    return detail::train::clip([&](auto f) { each_shared([&](auto& s) { f(s.own_gradients); }); }, limit,
                               [&](auto numbers, auto op) { kolo::allreduce(this->comm_, numbers, op); });
  }

  /// Bytes of optimizer state that this rank keeps.
  std::size_t state_bytes() const {
    std::size_t bytes = 0;
    for (const bucket_shard& p : shards_)
      bytes += detail::train::on([](const auto& s) { return std::as_bytes(std::span{s.states}).size(); }, p.parts);
    return bytes;
  }

  // For checkpoints:
  /// This rank's slices, in an order that is the same in every run on the same number of ranks.
  const std::vector<detail::train::owned_slice>& slices() const { return slices_; }
  long& steps() { return steps_; }  ///< how many were taken
  /// In how many of them a slice was updated: local ones only while this rank had data.
  long& steps_of(const detail::train::owned_slice& s) { return s.is_local ? own_steps_ : steps_; }
  /// The bytes of the values of elements first ... first + count - 1 of a slice, run by run.
  std::vector<std::span<std::byte>> values_of(const detail::train::owned_slice& s, std::size_t first,
                                              std::size_t count) {
    std::vector<std::span<std::byte>> runs;
    detail::train::on(
        [&](auto& own) {
          detail::view::for_runs(own.own_values.part(s.offset + first, count),
                                 [&](auto run) { runs.push_back(std::as_writable_bytes(run)); });
        },
        shards_[s.bucket].parts);
    return runs;
  }
  /// The bytes of the k-th state of these elements.
  std::span<std::byte> state_of(const detail::train::owned_slice& s, std::size_t k, std::size_t first,
                                std::size_t count) {
    return detail::train::on(
        [&](auto& own) {
          return std::as_writable_bytes(
              std::span{own.states}.subspan(k * own.own_values.size() + s.offset + first, count));
        },
        shards_[s.bucket].parts);
  }
  /// The number of elements of all parameters.
  std::size_t elements() const {
    std::size_t all = 0;
    for (std::size_t i = 0; i < this->local_.size(); ++i) all += this->local_.tensor(i).elements;
    return all;
  }
  /// Throws if a checkpoint is loaded while buckets are being exchanged.
  void expect_load() {
    if (this->local_.is_last_pass() && this->local_.has_marks())
      this->refuse("a checkpoint is loaded before the first ready, or after synchronize");
  }
  /// Collective, after slices have been set: gathers all values on all ranks. A step in progress is abandoned.
  void share_values() {
    this->drop_step();
    for (std::size_t b = 0; b < shared_; ++b) start_gather(b);
    for (auto& g : gathers_) g.wait();
  }

 private:
  friend hooks;

  /// Makes shards for the buckets, then for gradients with rows, then for local parameters. Each is of one element
  /// type.
  std::vector<bucket_shard> make_shards() {
    std::vector<bucket_shard> all;
    for (const auto& b : this->plan_.buckets) add_shard(all, b.range, b.parameters, false);
    for (const bool are_local : {false, true}) {
      std::vector<std::vector<std::size_t>> of_range(std::variant_size_v<views>);
      for (std::size_t i = 0; i < this->local_.size(); ++i)
        if (const auto& t = this->local_.tensor(i); t.is_local == are_local && (t.is_local || t.is_sparse))
          of_range[t.range].push_back(i);
      for (std::size_t k = 0; k < of_range.size(); ++k)
        if (!of_range[k].empty()) add_shard(all, k, of_range[k], are_local);
      if (!are_local) shared_ = all.size();
    }
    return all;
  }
  void add_shard(std::vector<bucket_shard>& all, std::size_t range, const std::vector<std::size_t>& which,
                 bool are_local) {
    this->with_tensors(range, which, [&](auto index, const auto& values, const auto& gradients) {
      using T = typename std::remove_cvref_t<decltype(values)>::element_type;
      const std::size_t n = values.size();
      const int p = this->comm_.size();
      const extent own = are_local ? extent{0, n} : block(n, p, this->comm_.rank());
      all.push_back({views{std::in_place_index<index>, values, gradients, own, Rule::states}});
      for (int r = 0; r < p && !are_local; ++r) all.back().counts.push_back(block(n, p, r).count);
      std::size_t at = 0;
      for (const std::size_t i : which) {
        const std::size_t count = this->local_.tensor(i).elements;
        detail::train::add_slice<T>(slices_, i, {at, count}, all.size() - 1, own, are_local);
        at += count;
      }
    });
  }

  void each_shared(auto f) {
    for (std::size_t b = 0; b < shared_; ++b) detail::train::on(f, shards_[b].parts);
  }

  void pack(std::size_t) {}
  request<wire_type> start(std::size_t b) {
    bucket_shard& p = shards_[b];
    p.owner = this;
    p.epilogue = {[](void* self, std::size_t first, std::size_t count) {
                    auto& reduced = *static_cast<bucket_shard*>(self);
                    reduced.owner->mark_reduced(reduced, {first, count});
                  },
                  &p};
    return detail::train::on(
        [&](auto& s) {
          return start_reduce_scatter(this->comm_, s.gradients,
                                      detail::collective::followed{s.own_gradients, &p.epilogue}, this->op_,
                                      this->algorithm_);
        },
        p.parts);
  }
  void arrived(std::size_t b, double factor) {
    if (factor != 1)
      detail::train::on([&](auto& s) { detail::train::scale(s.own_gradients, factor); }, shards_[b].parts);
  }
  void arrived_by_leaves(std::size_t b, leaf_sums& sums) {
    const std::byte* from = sums.combine_block().data();
    detail::train::on(
        [&](auto& s) {
          detail::view::for_runs(s.own_gradients, [&](auto run) {
            std::memcpy(run.data(), from, run.size_bytes()), from += run.size_bytes();
          });
          shards_[b].behind = {{0, s.own_gradients.size()}};
        },
        shards_[b].parts);
  }
  /// A helper that has the communicator updates nothing: only this thread changes parameters.
  void update_in_passing(bool may) {
    if (this->queue_.is_lent()) return;  // it is false, and the helper may be reading it
    updates_in_passing_ = may && this->options_.inputs != uneven::by_those_left && !has_rows();
  }
  /// Rows are exchanged before any update: all ranks do it in one order, and a step whose rows cannot be exchanged is
  /// given up.
  bool has_rows() const { return shared_ != this->plan_.buckets.size(); }
  void mark_reduced(bucket_shard& p, const extent& part) {
    auto& all = p.behind;
    if (updates_in_passing_) update_part(p, part);
    else if (!all.empty() && all.back().first + all.back().count == part.first) all.back().count += part.count;
    else all.push_back(part);
  }
  void update_early(std::size_t b) {
    if (has_rows()) return;
    update_shard(b);
    updated_ = b + 1;
  }
  void update() {
    updates_in_passing_ = false;
    for (std::size_t b = std::exchange(updated_, 0); b < shards_.size(); ++b) update_shard(b);
    for (auto& g : gathers_) g.wait();
    ++steps_;
    if (this->has_data_) ++own_steps_;
    if (thrown_) detail::core::rethrow(std::exchange(thrown_, nullptr));
  }
  void drop() {
    for (bucket_shard& shard : shards_) shard.behind.clear();
    updates_in_passing_ = false;
  }
  void update_shard(std::size_t b) {
    bucket_shard& p = shards_[b];
    if (b >= shared_ && !this->has_data_) return;
    if (b >= this->plan_.buckets.size())
      p.behind = {{0, detail::train::on([](auto& s) { return s.own_values.size(); }, p.parts)}};
    for (const extent& part : p.behind) update_part(p, part);
    p.behind.clear();
    if (b < shared_) start_gather(b);
  }
  /// Keeps an exception of the rule until the end of the step: the other ranks still get this rank's values.
  void update_part(bucket_shard& p, const extent& part) {
    if (thrown_) return;
    const long step = 1 + (p.counts.empty() ? own_steps_ : steps_);
    try {
      detail::train::on(
          [&](auto& s) { detail::train::apply(this->inner_, s.own_values, s.own_gradients, s.states, step, part); },
          p.parts);
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  void start_gather(std::size_t b) {
    const auto mine = this->queue_.calls();
    if (b < gathers_.size()) return gathers_[b].restart();
    const auto& counts = shards_[b].counts;
    const bool is_even = counts.front() == counts.back();  // more algorithms support equal parts
    gathers_.push_back(detail::train::on(
        [&](auto& s) {
          if (is_even) return start_allgather(this->comm_, s.own_values, s.values, this->algorithm_);
          return start_allgather(this->comm_, s.own_values, s.values, counts, this->algorithm_);
        },
        shards_[b].parts));
  }

  std::size_t shared_ = 0;   ///< the first `shared_` buckets have shards on all ranks; the others are this rank's own
  std::size_t updated_ = 0;  ///< the first `updated_` buckets have been updated in this step
  bool updates_in_passing_ = false;
  std::exception_ptr thrown_{};     ///< by the rule in this step
  long steps_ = 0, own_steps_ = 0;  ///< of all ranks; while this rank had data
  std::vector<detail::train::owned_slice> slices_{};
  std::vector<bucket_shard> shards_ = make_shards();
  std::vector<request<wire_type>> gathers_{};
};

template <class Comm, class Rule, class Range>
sharded_optimizer(Comm&, Rule, Range&&, const optimizer_options& = {}) -> sharded_optimizer<Comm, Rule, Range>;
template <class Comm, class Rule, class Range, detail::collective::AnyAlgorithm A>
sharded_optimizer(Comm&, Rule, Range&&, A, const optimizer_options& = {}) -> sharded_optimizer<Comm, Rule, Range, A>;
template <class Comm, class Rule, class Range, AnyOperator Op>
sharded_optimizer(Comm&, Rule, Range&&, Op, const optimizer_options& = {})
    -> sharded_optimizer<Comm, Rule, Range, automatic, Op>;
template <class Comm, class Rule, class Range, AnyOperator Op, detail::collective::AnyAlgorithm A>
sharded_optimizer(Comm&, Rule, Range&&, Op, A, const optimizer_options& = {})
    -> sharded_optimizer<Comm, Rule, Range, A, Op>;

}  // namespace kolo::inline KOLO_ABI
