// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of an optimizer that depend on its transport alone (train/gradient_exchange.hpp).
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/core/less_code.hpp>
#include <kolo/execute/engine.hpp>
#include <kolo/select/choose.hpp>
#include <kolo/train/gradient_exchange.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

template <class T>
bool are_alike(const communicator<T>& comm, std::uint64_t number) {
  std::uint64_t both[] = {number, ~number};
  const std::span all{both};
  start_allreduce(comm, all, max).wait();
  return both[0] == ~both[1];
}

template <class T>
std::size_t chosen_cap(const execute::engine<T>& e, kind k, execute::candidates_fn* candidates, std::size_t all_bytes) {
  constexpr std::size_t least = std::size_t{1} << 20;
  if (e.transport.size() == 1 || all_bytes <= least) return std::max(all_bytes, least);
  std::vector<double> per_byte;
  for (std::size_t bytes = least;; bytes *= 2) {
    const select::selection_query q{.collective = k,
                                    .size = e.transport.size(),
                                    .bytes = bytes,
                                    .has_streams = transport::has_streams(e.transport)};
    const auto all = candidates(q);
    const select::candidate& fastest = all[select::chosen(all, q, select::fixed_table(e), nullptr)];
    per_byte.push_back(select::predicted(fastest, q, select::fixed_table(e)) / double(bytes));
    if (bytes >= all_bytes) break;
  }
  const double allowed = 1.1 * *std::min_element(per_byte.begin(), per_byte.end());
  std::size_t cap = least;
  for (const double seconds : per_byte) {
    if (seconds <= allowed) break;
    cap *= 2;
  }
  return cap;
}

/// Collective: plans the buckets. Throws on all ranks if they plan different buckets, have other options that must be
/// equal or other gradients with rows, or multiply by different factors.
template <class T>
bucket_plan planned_alike(const communicator<T>& comm, const local_gradients& local, kind collective,
                          execute::candidates_fn* candidates, const optimizer_options& o) {
  const core::dynarray<planned_tensor> planned{local.size()};
  std::size_t all = 0;
  for (std::size_t i = 0; i < local.size(); ++i) {
    const any_tensor& t = local.tensor(i);
    const bool is_in = !t.is_local && !t.is_sparse;
    planned[i] = {is_in ? t.elements : not_planned, t.element_bytes, t.range};
    if (is_in) all += t.elements * t.element_bytes;
  }
  const std::size_t cap =
      o.bucket_bytes > 0 ? o.bucket_bytes : train::chosen_cap(*comm.engine(), collective, candidates, all);
  bucket_plan made = check_before_comparison(comm, [&] {
    local.refuse_shared_gradients();
    if (collective == kind::reduce_scatter) local.refuse_shared_values();
    return plan_buckets({planned.begin(), planned.size()}, cap, o.groups);
  });
  for (std::size_t i = 0; i < local.size(); ++i) made.names.push_back(local.tensor(i).name);
  core::digest mine = digest_of(made);
  mine.add(std::bit_cast<std::uint64_t>(o.density), o.inputs, o.leaves);
  local.add_to(mine);
  if (!train::are_alike(comm, mine.value))
    throw error{errc::mismatch,
                "ranks plan different buckets: number, order or sizes of their parameters, or the options, differ; "
                "here: " +
                    local.message() + " in " + made.message()};
  return made;
}

template <class T>
gradient_exchange<T>::gradient_exchange(const communicator<T>& comm, const optimizer_options& o,
                                        optimizer_hooks<T>& hooks, kind collective, execute::candidates_fn* candidates,
                                        local_gradients&& local)
    : comm_{comm},
      options_{o},
      local_{std::move(local)},
      plan_{planned_alike(comm, local_, collective, candidates, o)},
      hooks_{hooks},
      queue_{*comm.engine(), *this, plan_, local_.size(), o.helper} {
  for (std::size_t i = 0; o.leaves > 0 && i < local_.size(); ++i)
    if (const auto& t = local_.tensor(i); t.is_local || t.is_sparse)
      throw error{errc::invalid_argument, "options.leaves: " + t.name + " is local, or has rows"};
}

template <class T>
void gradient_exchange<T>::add_leaf_sums(bucket<std::byte> gradients, const kernel& k) {
  leaf_sums_.emplace_back(std::move(gradients), kolo::leaves{options_.leaves}, comm_, k);
}

template <class T>
void gradient_exchange<T>::ready(std::size_t index) {
  if (index >= local_.size()) refuse("there is no parameter " + std::to_string(index));
  demand(local_.refuses_ready(index));
  demand(hooks_.refuses_shape(index));
  if (local_.is_last_pass() && !local_.has_marks()) queue_.begin();
  local_.mark_ready(index);
  if (local_.is_last_pass()) queue_.mark(index);
}

template <class T>
void gradient_exchange<T>::synchronize() {
  demand_last_leaf();
  if (!local_.is_last_pass())
    refuse("synchronize comes after the last of options.passes backward passes: step() returns false after the others");
  demand_exchange();
  exchange(false);
}

template <class T>
bool gradient_exchange<T>::step() {
  demand_last_leaf();
  if (leaves_given_ == 0 && end_pass()) return false;
  if (local_.is_exchanged()) demand(local_.refuses_update());
  else demand_exchange();
  exchange_and_update();
  return true;
}

template <class T>
void gradient_exchange<T>::skip_step() {
  if (!local_.is_exchanged()) refuse("skip_step comes after synchronize, in place of step");
  drop_step();
}

template <class T>
std::vector<int> gradient_exchange<T>::leaves() const {
  std::vector<int> own;
  for (std::size_t i = 0; i < own_leaves().count; ++i) own.push_back(int(own_leaves().first + i));
  return own;
}
template <class T>
void gradient_exchange<T>::leaf() {
  if (leaves_given_ == 0 && local_.has_passed()) refuse("leaf comes after each leaf of a step, or step() does");
  if (leaves_given_ == own_leaves().count)
    refuse(options_.leaves > 0 ? "a leaf after the last one of this rank: step comes before the next"
                               : "a leaf needs options.leaves");
  if (++leaves_given_ < own_leaves().count) end_pass();
}
template <class T>
void gradient_exchange<T>::leaf(int number) {
  if (const extent own = own_leaves(); leaves_given_ < own.count && number != int(own.first + leaves_given_))
    refuse("leaf " + std::to_string(number) + " is not the next one of this rank's leaves()");
  leaf();
}

template <class T>
std::size_t gradient_exchange<T>::join() {
  return join_by(nullptr, nullptr);
}
template <class T>
void gradient_exchange<T>::zero_gradients() {
  if (local_.has_begun()) refuse("zero_gradients was called between the backward pass and the step");
  zero_all();
}

template <class T>
void gradient_exchange<T>::refuse(const std::string& sentence) {
  queue_.take_back(std::chrono::seconds{1});
  comm_.engine()->refuse("optimizer", sentence);
}

template <class T>
void gradient_exchange<T>::drop_step() {
  hooks_.drop();
  for (auto& sums : leaf_sums_) sums.drop();
  local_.forget_rests();
  end_step();
}

template <class T>
void gradient_exchange<T>::demand(const refusal& wrong) {
  if (wrong) refuse(*wrong);
}
template <class T>
void gradient_exchange<T>::demand_exchange() {
  if (local_.is_exchanged()) refuse("the gradients have been exchanged already, and no step was made with them");
  demand(hooks_.refuses_shapes());
  demand(local_.refuses_exchange());
}
template <class T>
extent gradient_exchange<T>::own_leaves() const {
  return options_.leaves > 0 ? kolo::leaves{options_.leaves}.of(comm_.rank(), comm_.size()) : extent{};
}
template <class T>
void gradient_exchange<T>::demand_last_leaf() {
  if (leaves_given_ > 0 && leaves_given_ < own_leaves().count)
    refuse("synchronize or step comes after the last of this rank's leaves()");
}

/// Ends a backward pass; returns whether more passes of this step follow.
template <class T>
bool gradient_exchange<T>::end_pass() {
  demand(local_.refuses_pass());
  if (!local_.end_pass()) return false;
  if (leaf_sums_.empty()) return true;
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) prepare(b);
  zero_all();  // the next leaf may add to its gradients, or replace them
  return true;
}

template <class T>
void gradient_exchange<T>::prepare(std::size_t b) {
  if (b == 0) prepare_join();
  for (const std::size_t i : plan_.buckets[b].parameters)  // before any of them is scaled
    if (const auto wrong = local_.refuses_zeroed(i)) comm_.engine()->refuse("optimizer", *wrong);
  for (const std::size_t i : plan_.buckets[b].parameters) local_.prepare(i);
  if (leaf_sums_.empty()) hooks_.pack(b);
  else leaf_sums_[b].take();
}
template <class T>
request<T> gradient_exchange<T>::start(std::size_t b) {
  return leaf_sums_.empty() ? hooks_.start(b) : leaf_sums_[b].start(comm_);
}
template <class T>
void gradient_exchange<T>::arrived(std::size_t b) {
  if (leaf_sums_.empty()) hooks_.arrived(b, left_to_multiply());
  else hooks_.arrived_by_leaves(b, leaf_sums_[b]);
  if (updates_early_) hooks_.update_early(b);
}

/// Waits for the exchange of each bucket.
template <class T>
void gradient_exchange<T>::exchange(bool updates) {
  if (plan_.buckets.empty()) prepare_join();
  updates_early_ = updates;
  queue_.finish();
  local_.forget_marks();
  for (auto& g : gathered_) g.wait();
  local_.prepare_others();
  const auto end_join = [&] {
    if (std::exchange(joins_begun_, false)) join_->wait();  // if all are local, no bucket waits for it
  };
  const auto give_up = [&] {
    drop_step();  // the other gradients are averages already: another step must not average them again
    if (!comm_.failed()) end_join();
  };
  core::with_rollback([&] { hooks_.exchange_rows(); }, give_up);
  end_join();
  local_.mark_exchanged();
}
template <class T>
void gradient_exchange<T>::exchange_and_update() {
  if (!local_.is_exchanged()) {
    hooks_.update_in_passing(true);
    core::with_rollback([&] { exchange(true); }, [&] { hooks_.update_in_passing(false); });
  }
  update_all();
}
/// Ends the step even if the wrapped optimizer throws, so that the next step starts from the beginning.
template <class T>
void gradient_exchange<T>::update_all() {
  const struct at_end {
    gradient_exchange& self;
    ~at_end() { self.queue_.count_update(), self.end_step(); }
  } ends{*this};
  hooks_.update();
}
template <class T>
void gradient_exchange<T>::end_step() {
  local_.end_step();
  leaves_given_ = 0;
}
template <class T>
void gradient_exchange<T>::zero_all() {
  local_.zero();
  hooks_.clear_rows();
}

/// Takes part in each step of the ranks that have data.
template <class T>
std::size_t gradient_exchange<T>::join_by(void (*between)(void*), void* argument) {
  if (options_.inputs == uneven::refused)
    refuse("join needs to be asked for: options.inputs = uneven::by_all or by_those_left");
  if (local_.has_begun() || local_.is_exchanged())
    refuse("join was called in the middle of a backward pass, or before the step that follows it");
  const struct without_data {
    bool& has;
    ~without_data() { has = true; }
  } until_the_end{has_data_ = false};
  for (std::size_t steps = 0;; ++steps) {
    zero_all();
    prepare_join();
    join_->wait();
    if (active_ == 0) return joins_begun_ = false, steps;
    if (!between) {
      exchange_and_update();
      continue;
    }
    exchange(false);
    between(argument);
    if (local_.is_exchanged()) update_all();
  }
}

/// Starts an allreduce of 8 bytes, before the first bucket, that counts the ranks with data.
template <class T>
void gradient_exchange<T>::prepare_join() {
  if (options_.inputs == uneven::refused || joins_begun_) return;
  active_ = has_data_ ? 1 : 0;
  if (join_) join_->restart();
  else join_.emplace(start_allreduce(comm_, std::span{&active_, 1}, sum));
  joins_begun_ = true;  // not if it could not start
}
template <class T>
double gradient_exchange<T>::left_to_multiply() {
  if (!joins_begun_ || !local_.op().divides || options_.inputs != uneven::by_those_left) return 1;
  join_->wait();
  return double(comm_.size()) / double(active_);
}

}  // namespace kolo::inline KOLO_ABI::detail::train
