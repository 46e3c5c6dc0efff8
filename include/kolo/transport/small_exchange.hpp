// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small messages by which a transport sets up another one: rare, and without a schedule.
#pragma once

#include <kolo/transport/abilities.hpp>
#include <kolo/transport/progress.hpp>
#include <kolo/transport/transport.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::transport {

[[noreturn]] void throw_other_call(SlotTransport auto& transport, const wait_context& s) {
  const auto text =
      core::text_of({"rank ", transport.rank(), " calls ", s.operation, ", rank ", s.peer, " something else"});
  throw error{transport.fail(failure_from(s, errc::mismatch, transport.rank(), {}, text))};
}

/// The piece that a peer has committed to a slot. If it has not, but has sent by an exchange or a board, it is already
/// in a later call, since an earlier piece in a slot would be here by then: `has_gone_on(piece)` throws.
template <SlotTransport T, class F>
received_slot peek_in_order(T& transport, int peer, F has_gone_on) {
  received_slot a = transport.peek(peer);
  if constexpr (SharedMemoryTransport<T>)
    if (!a.data) {
      received_slot other = transport.peek_exchange(peer);
      if constexpr (HasBoard<T>)
        if (!other.data) other = transport.peek_board(peer);
      if (other.data && !(a = transport.peek(peer)).data) has_gone_on(other);
    }
  return a;
}

template <SlotTransport T>
  requires(!MessageTransport<T>)
void small_send(T& transport, int peer, const std::byte* data, std::size_t bytes, wait_context s) {
  s.peer = peer;
  for (std::size_t done = 0; done < bytes;) {
    std::byte* to = nullptr;
    const auto n = std::min(bytes - done, transport.slot_bytes());
    for (backoff p; !(to = reserve(transport, peer, n));) relax(transport, p, s);
    std::memcpy(to, data + done, n);
    transport.commit(peer, n, split_tag);
    done += n;
  }
  transport.flush();
}

template <SlotTransport T>
  requires(!MessageTransport<T>)
void small_receive(T& transport, int peer, std::byte* data, std::size_t bytes, wait_context s) {
  s.peer = peer;
  for (std::size_t done = 0; done < bytes;) {
    received_slot a;
    const auto has_gone_on = [&](const received_slot&) { throw_other_call(transport, s); };
    for (backoff p; !(a = peek_in_order(transport, peer, has_gone_on)).data;) relax(transport, p, s);
    const auto n = std::min(bytes - done, transport.slot_bytes());
    if (a.tag != split_tag || a.bytes != n) throw_other_call(transport, s);
    std::memcpy(data + done, a.data, n);
    done += n;
    transport.release(peer);
  }
  transport.flush();
}

template <MessageTransport T>
void await(T& transport, typename T::ticket t, const wait_context& s) {
  transport.submit();
  for (backoff p; !transport.done(t);) relax(transport, p, s);
}
void small_send(MessageTransport auto& transport, int peer, const std::byte* data, std::size_t bytes, wait_context s) {
  s.peer = peer;
  await(transport, transport.send(peer, data, bytes, split_tag), s);
}
void small_receive(MessageTransport auto& transport, int peer, std::byte* data, std::size_t bytes, wait_context s) {
  s.peer = peer;
  await(transport, transport.receive(peer, data, bytes, split_tag), s);
}

/// The context of a small exchange; `operation` is the function that the user called, a string that is never freed.
wait_context setup_of(const Transport auto& transport, const char* operation) {
  return {.operation = operation, .timeout = transport.timeout(), .found_in = origin::setup};
}

/// Calls f(), which sets something up for `operation` by functions that are also called directly: their failures get
/// the name of `operation`.
auto in_the_name_of(const char* operation, auto f) {
  try {
    return f();
  } catch (const error& e) {
    if (e.cause().found_in != origin::setup) throw;
    failure cause = e.cause();
    cause.operation = std::string_view{operation};
    throw error{cause, e.buffers_in_use()};
  }
}

/// Calls f(), a part of `operation` that may fail on this rank alone: notifies the other ranks, since they wait for
/// this one. If they have reported a failure before, it throws that one, as this rank's may follow from it.
auto sharing_failure(Transport auto& transport, const char* operation, auto f) {
  const auto fails = [&](std::string_view why) {
    const int rank = transport.rank();
    if (const failure* first = transport.failed()) throw error{*first};
    if (transport.size() > 1)
      transport.fail(failure_from(setup_of(transport, operation).with_peer(rank), errc::peer_failed, rank, {}, why));
  };
  try {
    return f();
  } catch (const error& e) {
    fails(e.cause().text);
    throw;
  } catch (const std::exception& e) {
    fails(e.what());
    throw;
  }
}

/// Allgather through rank 0. `items`: one per rank, with this rank's filled in. `s`: the context of each wait.
template <class T>
  requires SlotTransport<T> || MessageTransport<T>
void small_allgather(T& transport, void* items, std::size_t item_bytes, const wait_context& s) {
  auto* bytes = static_cast<std::byte*>(items);
  const auto mine = std::size_t(transport.rank()) * item_bytes, all = std::size_t(transport.size()) * item_bytes;
  if (transport.rank() != 0) {
    small_send(transport, 0, bytes + mine, item_bytes, s);
    small_receive(transport, 0, bytes, all, s);
    return;
  }
  for (int r = 1; r < transport.size(); ++r)
    small_receive(transport, r, bytes + std::size_t(r) * item_bytes, item_bytes, s);
  for (int r = 1; r < transport.size(); ++r) small_send(transport, r, bytes, all, s);
}
template <class T>
  requires SlotTransport<T> || MessageTransport<T>
void small_allgather(T& transport, void* items, std::size_t item_bytes, const char* operation) {
  small_allgather(transport, items, item_bytes, setup_of(transport, operation));
}
/// Likewise; by rank.
template <class X, class T>
std::vector<X> small_allgather(T& transport, const X& mine, const char* operation) {
  std::vector<X> all(std::size_t(transport.size()));
  all[std::size_t(transport.rank())] = mine;
  small_allgather(transport, all.data(), sizeof mine, operation);
  return all;
}

/// Collective: the ranks that pass this color, in the order of their keys, and of their ranks if keys are equal.
std::vector<int> group_of(Transport auto& transport, int color, int key) {
  struct member {
    std::int32_t color, key;
  };
  const auto all = small_allgather(transport, member{color, key}, "split");
  std::vector<int> group;
  for (int r = 0; r < transport.size(); ++r)
    if (all[std::size_t(r)].color == color) group.push_back(r);
  std::stable_sort(group.begin(), group.end(),
                   [&](int a, int b) { return all[std::size_t(a)].key < all[std::size_t(b)].key; });
  return group;
}

void small_barrier(SlotTransport auto& transport, const char* operation) { small_allgather(transport, '.', operation); }

}  // namespace kolo::inline KOLO_ABI::detail::transport
