// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of an optimizer's queue of buckets (train/overlap.hpp).
#pragma once

#include <kolo/execute/engine.hpp>
#include <kolo/train/gradient_exchange.hpp>
#include <kolo/train/overlap.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::train {

template <class T>
std::uint32_t number_of_optimizer(execute::engine<T>& e) {
  return ++e.owners;
}

template <class T>
calls_of<T>::calls_of(execute::engine<T>& e, std::uint32_t number, long step) : engine_{e} {
  e.owner = number;
  e.history = (e.history ^ (number + std::uint32_t(step) * 0x85ebca6bu)) * 0x9e3779b1u;
}
template <class T>
calls_of<T>::~calls_of() {
  engine_.owner = 0;
}

template <class T>
bucket_queue<T>::bucket_queue(execute::engine<T>& e, gradient_exchange<T>& exchange, const bucket_plan& plan,
                              std::size_t parameters, background* helper)
    : engine_{e},
      exchange_{exchange},
      plan_{plan},
      helper_{helper},
      number_{number_of_optimizer(e)},
      bucket_of_(parameters, plan.buckets.size()) {
  for (std::size_t b = 0; b < plan.buckets.size(); ++b)
    for (const std::size_t i : plan.buckets[b].parameters) bucket_of_[i] = b;
  requests_.reserve(plan.buckets.size());
  reset();
}

template <class T>
void bucket_queue<T>::take_back(std::chrono::nanoseconds longest) {
  if (!std::exchange(is_lent_, false)) return;
  try {
    helper_->cancel(std::min(longest, engine_.transport.timeout()));
  } catch (...) {  // NOLINT: the communicator keeps the cause
  }
}
template <class T>
void bucket_queue<T>::end() {
  take_back(std::chrono::nanoseconds::max());
  requests_.clear();
}

template <class T>
void bucket_queue<T>::begin() {
  if (!helper_) return;
  helper_->lend([](void* self) { static_cast<bucket_queue*>(self)->exchange_all(); }, this);
  is_lent_ = true;
}
template <class T>
void bucket_queue<T>::mark(std::size_t i) {
  const std::size_t b = bucket_of_[i];
  if (b == plan_.buckets.size()) return progress();
  if (is_lent_) helper_->change([&] { --missing_[b]; });
  else --missing_[b], progress();
}

template <class T>
void bucket_queue<T>::progress() {
  if (is_lent_) return;
  start_ready();
  while (finished_ < requests_begun_ && requests_[finished_].test()) finish_one();
}

template <class T>
void bucket_queue<T>::finish() {
  const double since = transport::seconds_now(engine_.transport);
  if (is_lent_) {
    helper_->change([&] { missing_.assign(missing_.size(), 0); });
    is_lent_ = false;
    helper_->take_back(engine_.transport.timeout());
  }
  missing_.assign(missing_.size(), 0);
  start_ready();
  for (std::size_t b = 0; b < requests_begun_; ++b) {
    if (b == finished_) requests_[b].wait(), finish_one();
    exchange_.arrived(b);
  }
  report_.exchange = plan_.buckets.empty() ? 0 : last_end_ - first_start_;
  report_.waited = std::max(0.0, std::min(last_end_ - since, report_.exchange));
  reset();
}

template <class T>
void bucket_queue<T>::reset() {
  missing_.resize(plan_.buckets.size());
  for (std::size_t b = 0; b < missing_.size(); ++b) missing_[b] = plan_.buckets[b].parameters.size();
  requests_begun_ = finished_ = 0;
}

template <class T>
void bucket_queue<T>::exchange_all() {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    // Buckets that are ready on all ranks are exchanged even if it is cancelled.
    if (!helper_->wait_until([&] { return missing_[b] == 0; })) return;
    start(b);
    requests_[b].wait();
    finish_one();
  }
}

template <class T>
void bucket_queue<T>::start_ready() {
  while (requests_begun_ < plan_.buckets.size() && missing_[requests_begun_] == 0) start(requests_begun_);
}
template <class T>
void bucket_queue<T>::start(std::size_t b) {
  if (b == 0) first_start_ = transport::seconds_now(engine_.transport);
  exchange_.prepare(b);
  const auto mine = calls();
  if (b == requests_.size()) requests_.push_back(exchange_.start(b));
  else requests_[b].restart();
  ++requests_begun_;
}
template <class T>
void bucket_queue<T>::finish_one() {
  if (++finished_ == plan_.buckets.size()) last_end_ = transport::seconds_now(engine_.transport);
}

}  // namespace kolo::inline KOLO_ABI::detail::train
