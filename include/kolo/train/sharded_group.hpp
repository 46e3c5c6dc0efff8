// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups of a sharded model: a rank's part of each, the whole while it is in use, and its memory.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/execute/request.hpp>
#include <kolo/train/sharded_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::train {

/// Errors  invalid_argument: a group without elements; a tensor that is listed twice.
template <class T>
void check_groups(const std::vector<std::vector<sharded_tensor<T>*>>& groups) {
  const auto refuse = [](const std::string& what) {
    throw error{errc::invalid_argument, "kolo::sharded_parameters: " + what};
  };
  std::set<const sharded_tensor<T>*> all;
  for (const auto& tensors : groups) {
    std::size_t elements = 0;
    for (const auto* t : tensors) {
      elements += t->size();
      if (!all.insert(t).second)
        refuse("a tensor is named twice: what several layers use is in one group, which is in use for all of them");
    }
    if (elements == 0) refuse("a group has no elements");
  }
}

/// Reusable buffers for whole groups, each as long as the longest group.
template <class T>
class group_buffers {
 public:
  using buffer = std::unique_ptr<T[]>;

  /// Called for each group before the first `take`.
  void make_room_for(std::size_t elements) { longest_ = std::max(longest_, elements); }
  buffer take() {
    if (spare_.empty()) return ++count_, buffer{new T[longest_]};
    buffer b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }
  void recycle(buffer b) {
    if (b) spare_.push_back(std::move(b));
  }
  std::size_t elements() const { return count_ * longest_; }  ///< of all buffers

 private:
  std::size_t longest_ = 0, count_ = 0;
  std::vector<buffer> spare_{};
};

/// Tensors that are gathered together.
template <class T, class Wire>
struct sharded_group {
  sharded_group(const std::vector<sharded_tensor<T>*>& all, std::size_t ranks, std::size_t states_each) : tensors{all} {
    for (const auto* t : tensors) elements += t->size();
    part = (elements + ranks - 1) / ranks;
    values.resize(part), gradients.resize(part), states.resize(states_each * part);
  }

  void show_values() { show(whole.get(), &sharded_tensor<T>::value_); }
  void hide_values() { show(nullptr, &sharded_tensor<T>::value_); }
  void show_gradients() { show(whole_gradients.get(), &sharded_tensor<T>::gradient_); }
  void hide_gradients() { show(nullptr, &sharded_tensor<T>::gradient_); }
  void finish_gather() {
    if (gather) gather->wait(), gather.reset();
  }
  void finish_scatter() {
    if (scatter) scatter->wait(), scatter.reset();
  }

  std::vector<sharded_tensor<T>*> tensors;
  std::size_t elements = 0, part = 0;  ///< of all tensors; of each rank's part, padded at the end
  std::vector<T> values{}, gradients{}, states{};
  std::unique_ptr<T[]> whole{}, whole_gradients{};
  std::optional<request<Wire>> gather{}, scatter{};
  int users = 0;
  bool has_gradients = false;  ///< of this step: in progress while `whole_gradients` is set

 private:
  void show(T* at, std::span<T> sharded_tensor<T>::*where) {
    for (auto* t : tensors)
      t->*where = at ? std::span<T>{std::exchange(at, at + t->size()), t->size()} : std::span<T>{};
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::train
