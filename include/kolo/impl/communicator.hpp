// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of a communicator (execute/communicator.hpp).
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/execute/communicator.hpp>
#include <kolo/execute/engine.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/forwarded.hpp>

#include <concepts>
#include <memory>
#include <string_view>
#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail::execute {
/// Made of a communicator, it shares that one's unreported failures, also in another thread of the rank.
template <class T, class... Args>
std::shared_ptr<engine<T>> make_engine(Args&&... args) {
  std::shared_ptr<transport::unreported_failure> shared{};
  [[maybe_unused]] const auto share_with = [&]([[maybe_unused]] const auto& host) {
    if constexpr (requires { shared = host.engine()->unreported; }) shared = host.engine()->unreported;
  };
  (share_with(args), ...);  // before they are moved
  auto made = core::shared<engine<T>>(std::forward<Args>(args)...);
  if (shared) made->unreported = std::move(shared);
  return made;
}
}  // namespace detail::execute

template <class T>
[[gnu::cold, gnu::noinline]] void communicator<T>::refuse_moved_from() {
  detail::core::throw_error(errc::invalid_argument,
                            {"this communicator was moved from: use the one that it was moved to"});
}
template <class T>
T& communicator<T>::transport() const {
  return engine()->transport;
}
template <class T>
const failure* communicator<T>::failed() const {
  return engine()->transport.failed();
}
template <class T>
int communicator<T>::rank() const {
  return transport().rank();
}
template <class T>
int communicator<T>::size() const {
  return transport().size();
}
template <class T>
int communicator<T>::local_rank() const {
  return transport().place().local_rank;
}
template <class T>
int communicator<T>::local_size() const {
  return transport().place().local_size;
}
template <class T>
int communicator<T>::node_rank() const {
  return transport().place().node_rank;
}
template <class T>
int communicator<T>::node_count() const {
  return transport().place().node_count;
}

template <class T>
communicator<T> communicator<T>::split(int color, int key, const call_site& site) {
  const auto here = engine()->begin_alone("split");
  if (engine_->is_checked) engine_->compare("split", detail::execute::call_signature{site}, transport().timeout());
  communicator part{transport().split(color, key)};
  hand_down(part);
  return part;
}

template <class T>
communicator<T> communicator<T>::shrink(const options& o) {
  const detail::execute::whole_call here{*engine(), "shrink"};
  static_assert(Shrinkable<T>, "kolo: this transport cannot shrink: it has no member shrink(timeout)");
  if (o.timeout < o.timeout.zero()) throw error{errc::invalid_argument, detail::transport::negative_deadline};
  auto& recovered = engine_->unreported->recovered;
  const bool had_recovered = recovered.exchange(false);
  engine_->mark_reported();
  engine_->flight->fail();
  try {
    communicator rest{transport().shrink(o.timeout > o.timeout.zero() ? detail::transport::bounded(o.timeout)
                                                                      : transport().timeout())};
    hand_down(rest);
    detail::core::dynarray<rank_identity> lost(std::size_t(size() - rest.size()));
    if constexpr (Identifiable<T>)
      for (std::size_t r = 0, n = 0; r < std::size_t(size()) && n < lost.size(); ++r)
        if (const auto its = transport().who(int(r)); detail::transport::rank_of(rest.transport(), its) < 0)
          lost[n++] = its;
    engine_->unreported->recover(lost);
    return rest;
  } catch (const error& e) {
    if (e.code() == errc::invalid_argument) recovered = had_recovered;  // it was rejected, and the state before holds
    throw;
  }
}

template <class T>
template <std::same_as<T>>
communicator<T> communicator<T>::grow(std::string_view meeting, const grow_options& o, const call_site& site) {
  static_assert(Growable<T>, "kolo: this transport cannot grow: it has no member grow(meeting, newcomers, timeout)");
  const auto timeout = o.timeout == o.timeout.zero()
                           ? transport().timeout()
                           : detail::transport::bounded(o.timeout);  // all learn of a negative one
  const auto here = engine()->begin_alone("grow");
  if (engine_->is_checked) engine_->compare("grow", detail::execute::call_signature{site}, transport().timeout());
  communicator more{transport().grow(meeting, o.newcomers, timeout)};
  hand_down(more);
  more.engine_->named.reset();  // newcomers have no such table
  return more;
}

template <class T>
std::size_t communicator<T>::buffers_in_use() const {
  return detail::transport::buffers_in_use(engine()->transport);
}

template <class T>
typename communicator<T>::choices communicator<T>::take_choices() {
  return std::exchange(engine()->resolved, {});
}
template <class T>
void communicator<T>::begin_with(choices&& known) {
  engine()->resolved = std::move(known);
  engine_->resolved.forget_recent();  // recent calls skip the check against this transport's piece lengths
  engine_->has_chosen = true;
}

template <class T>
void communicator<T>::hand_down(communicator& part) const {
  error::clear_thrown();
  part.engine_->unreported = engine_->unreported;
  if (engine_->named) part.engine_->named = std::make_unique<const tuning>(*engine_->named);
}

}  // namespace kolo::inline KOLO_ABI
