// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base of the replicated and the sharded optimizer: the exchange of buckets, joined ranks, and the checks of misuse.
#pragma once

#include <kolo/train/leaf_sums.hpp>
#include <kolo/train/local_gradients.hpp>
#include <kolo/train/options.hpp>
#include <kolo/train/overlap.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// What an optimizer does by the types of its parameters, its operator and its algorithm.
template <class T>
struct optimizer_hooks {
  // For bucket b:
  /// Called before each `start`, after each of the bucket's gradients was prepared.
  virtual void pack(std::size_t b) = 0;
  /// Returns a request for the exchange.
  virtual request<T> start(std::size_t b) = 0;
  /// Called when it has ended; the gradients must still be multiplied by `factor`.
  virtual void arrived(std::size_t b, double factor) = 0;
  /// The same with `options.leaves`.
  virtual void arrived_by_leaves(std::size_t b, leaf_sums<T>& sums) = 0;
  /// Called after that, only in a `step()`: the bucket's parameters may be updated now.
  virtual void update_early(std::size_t b) = 0;

  // For all of them:
  /// Called with true before a `step()` exchanges the gradients that have not been exchanged yet: parameters may be
  /// updated during the exchange; with false if it throws.
  virtual void update_in_passing(bool may) = 0;
  /// Called when all buckets are exchanged: updates the parameters that are not updated yet; `drop`: none is updated.
  virtual void update() = 0;
  virtual void drop() = 0;

  // For the parameters:
  virtual refusal refuses_shape(std::size_t i) = 0;  ///< of the parameter that has this index now
  virtual refusal refuses_shapes() = 0;              ///< of all, and if there are more or fewer
  virtual void exchange_rows() = 0;
  virtual void clear_rows() = 0;

 protected:
  ~optimizer_hooks() = default;
};

/// All of an optimizer that depends on its transport alone: compiled once for each.
template <class T>
class gradient_exchange {
 public:
  gradient_exchange(const gradient_exchange&) = delete;
  gradient_exchange& operator=(const gradient_exchange&) = delete;

  /// Call it when the backward pass has completed gradient `index`, which it must not access again before the step
  /// ends. A bucket's exchange starts when all of its gradients are complete and the buckets before it have started.
  /// With options.passes, call it in each pass of a step, or in none.
  void ready(std::size_t index);

  /// Progresses started exchanges; never waits. Calling it is optional: `ready` and a helper progress them, too.
  void progress() { queue_.progress(); }

  /// Waits until all gradients are exchanged, and updates nothing: for work before the update, such as clipping.
  void synchronize();

  /// Call it after each backward pass. Exchanges the gradients, unless `synchronize` has done so, updates every
  /// parameter and returns true. Returns false and does nothing if more backward passes of the step follow.
  /// If the exchange of rows throws, the step is given up: the next backward pass begins another.
  bool step();

  /// Call it after `synchronize`, instead of `step`, on all ranks: updates nothing and counts no step, for example when
  /// gradients of a scaled loss have overflowed. All ranks must decide by an equal value, such as the norm that
  /// clipping returns. Also clears the residual of error feedback, which belongs to these gradients and their loss
  /// scale.
  void skip_step();

  /// With options.leaves: returns the micro-batches of a step that this rank computes, in this order.
  std::vector<int> leaves() const;
  /// Call it after the backward pass of each leaf, then step() once. (Without leaves, step() follows each pass.)
  void leaf();
  /// The same, and checks that `number` is the next leaf.
  void leaf(int number);

  /// This rank has no more data: takes part in the steps of the others until no rank has data; its local parameters do
  /// not change. Returns the number of these steps. All ranks call it at the end of an epoch, and all return together,
  /// with the same parameters. Before: no backward pass has begun, and the last step is complete.
  std::size_t join();
  /// The same if the other ranks work between `synchronize` and `step` (clip, set a learning rate, skip the step):
  /// calls between(), which does that on this rank.
  template <class F>
  std::size_t join(F between) {
    return join_by([](void* f) { (*static_cast<F*>(f))(); }, &between);
  }
  /// Sets all gradients to zero; not between a backward pass and its step.
  void zero_gradients();

  const bucket_plan& buckets() const { return plan_; }
  const overlap_report& overlap() const { return queue_.report(); }  ///< of the last exchange

  /// Reports this rank's misuse to the other ranks, too, after the helper has returned the communicator.
  [[noreturn]] void refuse(const std::string& sentence);

 protected:
  /// `hooks` may be called from the end of the constructor on.
  gradient_exchange(const communicator<T>& comm, const optimizer_options& o, optimizer_hooks<T>& hooks, kind collective,
                    execute::candidates_fn* candidates, local_gradients&& local);
  ~gradient_exchange() = default;

  /// Called for each bucket, if options.leaves is set. `k`: the kernel of an operator that outlives this object.
  void add_leaf_sums(bucket<std::byte> gradients, const kernel& k);
  /// Called while no bucket is being exchanged.
  void drop_step();
  /// Returns the factor that turns a mean over all ranks into one over the ranks with data; 1 if that is not asked for.
  double left_to_multiply();

  const communicator<T>& comm_;
  optimizer_options options_;
  local_gradients local_;
  bucket_plan plan_;
  bool has_data_ = true;
  std::vector<leaf_sums<T>> leaf_sums_{};  ///< of each bucket; none without options.leaves
  std::vector<request<T>> gathered_{};     ///< allgathers of whole gradients, after the sums, from their memory

 private:
  friend bucket_queue<T>;
  void prepare(std::size_t b);
  request<T> start(std::size_t b);
  void arrived(std::size_t b);

  void demand(const refusal& wrong);
  void demand_exchange();
  void demand_last_leaf();
  extent own_leaves() const;
  bool end_pass();
  void exchange(bool updates);
  void exchange_and_update();
  void update_all();
  void end_step();
  void zero_all();
  std::size_t join_by(void (*between)(void*), void* argument);
  void prepare_join();

  optimizer_hooks<T>& hooks_;
  std::uint64_t active_ = 0;      ///< ranks that have data
  std::size_t leaves_given_ = 0;  ///< calls of leaf() in this step
  bool joins_begun_ = false, updates_early_ = false;
  std::optional<request<T>> join_{};

 protected:
  bucket_queue<T> queue_;  ///< the most derived class calls `end` before any member is destroyed
};

}  // namespace kolo::inline KOLO_ABI::detail::train

#ifndef KOLO_DECLARES
#include <kolo/train/impl/gradient_exchange.hpp>
#endif
