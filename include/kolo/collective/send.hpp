// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// send, receive and exchange: point-to-point calls, which only two ranks make.
#pragma once

#include <kolo/collective/entry.hpp>
#include <kolo/schedule/with_peer.hpp>

#include <cstddef>
#include <cstdint>

namespace kolo::inline KOLO_ABI {

namespace detail::collective {

/// The bytes that travel if there are no elements, since the other rank must be notified.
struct pair_tokens {
  std::byte tokens[2]{};
};

/// Sets the arguments that follow from the parts of a call, and checks them. `c.in` is the view to send, or else to
/// receive.
template <kind K, class C, class Call>
void complete_pair(C& comm, Call& c, std::uint32_t tag) {
  using In = decltype(c.in);
  using T = view_element_t<In>;
  collective_args& args = c.args;
  args.collective = K;
  args.count = c.in.size();
  if constexpr (UntypedView<In>) args.compute = untyped_kernel<K>(comm, c);
  else args.compute = detail::reduce::copy_kernel<T>();
  std::uint32_t types = execute::type_hash<T>();
  if constexpr (UntypedView<In>) types = untyped_traits({.types = types}, c.in, execute::none{}).types;
  if (args.count > 0) {
    if constexpr (K != kind::receive) args.in = kolo::erase(c.in);
    if constexpr (K != kind::send) args.out = kolo::erase(c.out);
  } else {
    args.compute = detail::reduce::copy_kernel<std::byte>();
    args.count = 1;
    args.is_empty = true;
    types = ~types;
    auto& e = *comm.engine();
    if constexpr (K != kind::receive)
      args.in = {.base = execute::token_of(e, &c.tokens[0]), .count = 1, .element_bytes = 1};
    if constexpr (K != kind::send)
      args.out = {.base = execute::token_of(e, &c.tokens[1]), .count = 1, .element_bytes = 1};
  }
  args.peer = c.schedule.peer;
  args.schedule = execute::erase_schedule(c.schedule, comm.size());
  execute::prepare_pair_call(*comm.engine(), args, types, tag);
}

template <kind K, class C, class In, class Out, RootLike Peer>
auto make_pair_call(C& comm, const In& in, const Out& out, const Peer& peer, long long tag) {
  const schedule::with_peer<K> schedule{rank_from(comm, K, peer, "the peer is ")};
  require(comm, K, K == kind::exchange || schedule.peer != comm.rank(),
          "the peer is the rank itself: use kolo::exchange");
  require(comm, K, tag >= 0 && tag <= 0x7fffffff, "a tag is from 0 to 2^31 - 1");
  return make_call<K, pair_tokens>(in, out, execute::none{}, schedule, [&](auto& c) {
    if constexpr (!std::same_as<Out, execute::none>)
      require_equal(comm, name(K), "in has ", c.in.size(), " elements, and out has ", c.out.size());
    complete_pair<K>(comm, c, std::uint32_t(tag));
    if constexpr (K == kind::exchange)
      require(comm, K, c.in.size() == 0 || are_disjoint(c.args.in, c.args.out), "in and out overlap");
  });
}

// The last arguments of such a call: an optional tag, and no algorithm.
long long tag_from(const RootLike auto& tag, const schedule::Automatic auto&) { return static_cast<long long>(tag); }
long long tag_from(const schedule::Automatic auto&) { return 0; }
template <class... Rest>
concept MayEndWithTag = requires(const Rest&... rest) {
  tag_from(rest...);
};

template <kind Kind>
struct pair_call {
  static constexpr auto K = Kind;

  template <class C, ViewLike X, RootLike Peer, class... Rest>
    requires(K != kind::exchange && MayEndWithTag<Rest...>)
  static auto make(C& comm, X& x, Peer& peer, Rest&... rest) {
    if constexpr (K == kind::send)
      return make_pair_call<K>(comm, kolo::as_view(x), execute::none{}, peer, tag_from(rest...));
    else return make_pair_call<K>(comm, kolo::as_view(x), kolo::as_view(x), peer, tag_from(rest...));
  }
  template <class C, ViewLike In, ViewLike Out, RootLike Peer, class... Rest>
    requires(K == kind::exchange && MayEndWithTag<Rest...>)
  static auto make(C& comm, In& in, Out& out, Peer& partner, Rest&... rest) {
    return make_pair_call<K>(comm, kolo::as_view(in), kolo::as_view(out), partner, tag_from(rest...));
  }
  template <class... Wrong>
  static no_call make(Wrong&...) {
    constexpr bool is_right = sizeof...(Wrong) == 0;
    static_assert(K != kind::send || is_right, "kolo::send takes (comm, x, to), then a tag, then options");
    static_assert(K != kind::receive || is_right, "kolo::receive takes (comm, x, from), then a tag, then options");
    static_assert(K != kind::exchange || is_right,
                  "kolo::exchange takes (comm, in, out, partner), then a tag, then options");
    return {};
  }
};
using send = pair_call<kind::send>;
using receive = pair_call<kind::receive>;
using exchange = pair_call<kind::exchange>;

}  // namespace detail::collective

/// send(comm, x, to [, tag] [, options])
///
/// Only the two ranks call it: it is numbered per pair of ranks, and not among the communicator's calls. A rank's sends
/// to another arrive in the order of the calls. Started operations progress concurrently, also with one peer in both
/// directions: start_send and start_receive, then wait for both.
///
/// Before  this rank has n elements in x, and `to`, another rank, calls receive(comm, y, this rank, tag) with as many
///         of the same type. A tag is an integer from 0 on, 0 by default: it does not select messages, it is checked.
/// After   x may be written again. The other rank may or may not have called receive: a program is right if it would
///         be if every send waited for that.
/// Order   between two ranks, sends and receives and the collectives that both call come in one order on both: a
///         collective begins on a rank when all operations started there before it have ended. Operations that are to
///         be independent of the collectives need a communicator of their own (`split`).
/// Cost    1 message, n elements.
/// Errors  mismatch: another length, type or tag; or a collective, there. invalid_argument: no other rank of the
///         communicator. Any: kolo::errc.
inline constexpr detail::collective::blocking<detail::collective::send> send{};
inline constexpr detail::collective::started<detail::collective::send> start_send{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::send> plan_send{};   ///< gives a plan

/// receive(comm, x, from [, tag] [, options])
///
/// Before  `from`, another rank, calls send(comm, y, this rank, tag), see there.
/// After   x holds the elements that it sent.
/// Order, Cost, Errors  as of send.
inline constexpr detail::collective::blocking<detail::collective::receive> receive{};
inline constexpr detail::collective::started<detail::collective::receive> start_receive{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::receive> plan_receive{};   ///< gives a plan

/// exchange(comm, in, out, partner [, tag] [, options])
///
/// Before  this rank and `partner` both call it, with n elements of one type in `in`. A rank may be its own partner.
/// After   out holds the elements of the partner's `in`. in and out do not overlap.
/// Order, Errors  as of send; it takes its turn in both directions of the pair.
/// Cost    1 message each way, n elements: both go at once.
inline constexpr detail::collective::blocking<detail::collective::exchange> exchange{};
inline constexpr detail::collective::started<detail::collective::exchange> start_exchange{};  ///< gives a request
inline constexpr detail::collective::planned<detail::collective::exchange> plan_exchange{};   ///< gives a plan

}  // namespace kolo::inline KOLO_ABI
