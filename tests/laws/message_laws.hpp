// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::MessageTransport, each a function that every rank calls with its transport; it returns the law that is broken, or nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "laws/transport_laws.hpp"

namespace laws {

inline std::vector<std::byte> message(std::size_t bytes, int from, int number) {
  std::vector<std::byte> m(bytes);
  const std::size_t period = 256;  // so that most of it is copied: a sanitizer checks each access otherwise
  for (std::size_t i = 0; i < std::min(period, bytes); ++i)
    m[i] = static_cast<std::byte>(static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(number) * 7 + i);
  for (std::size_t n = period; n < bytes; n *= 2) std::memcpy(m.data() + n, m.data(), std::min(n, bytes - n));
  return m;
}
inline bool is_message(const std::vector<std::byte>& m, int from, int number) {
  return std::memcmp(m.data(), message(m.size(), from, number).data(), m.size()) == 0;
}

/// Each pair has many messages in flight, longer and shorter than a piece; receives are posted before sends and after.
inline constexpr auto messages_arrive_in_order = [](auto& t) -> std::string {
  using ticket = typename std::remove_reference_t<decltype(t)>::ticket;
  const int p = t.size(), r = t.rank(), each = 6;
  const auto length = [&](int k) { return k == 3 ? 3 * t.piece_bytes() + 5 : static_cast<std::size_t>(k + 1); };
  std::vector<std::vector<std::byte>> out, in;
  struct posted {
    ticket its;
    int peer;  // a rank that is done may leave: only this peer is waited for
  };
  std::vector<posted> all;
  for (int d = 1; d < p; ++d)
    for (int k = 0; k < each; ++k) out.push_back(message(length(k), r, k)), in.emplace_back(length(k));
  const auto receive = [&] {
    for (int d = 1, i = 0; d < p; ++d)
      for (int k = 0; k < each; ++k, ++i) {
        auto& m = in[static_cast<std::size_t>(i)];
        all.push_back({t.receive((r + d) % p, m.data(), m.size(), static_cast<std::uint64_t>(k)), (r + d) % p});
      }
  };
  const auto send = [&] {
    for (int d = 1, i = 0; d < p; ++d)
      for (int k = 0; k < each; ++k, ++i) {
        const auto& m = out[static_cast<std::size_t>(i)];
        all.push_back({t.send((r + d) % p, m.data(), m.size(), static_cast<std::uint64_t>(k)), (r + d) % p});
      }
  };
  r % 2 == 0 ? (receive(), send()) : (send(), receive());
  t.submit();
  for (const posted& one : all) {
    auto its = one.its;
    until(t, one.peer, [&] { return t.done(its); });
  }
  for (auto& one : all)
    if (!t.done(one.its)) return "a ticket that is done stays done";
  for (int d = 1, i = 0; d < p; ++d)
    for (int k = 0; k < each; ++k, ++i)
      if (!is_message(in[static_cast<std::size_t>(i)], (r + d) % p, k))
        return "messages of a pair arrive as they were sent, in order";
  return "";
};

/// The last rank calls another collective than the others: the error on all ranks names a call. Returns its message, which is the same on all ranks.
inline constexpr auto a_mismatch_is_told_alike = []<class T>(T& t) -> std::string {
  kolo::communicator<T> comm{t.split(0, t.rank())};
  const int last = t.size() - 1;
  try {
    int x[10]{};
    if (t.rank() == last) kolo::broadcast(comm, x, last);
    else kolo::allreduce(comm, x, kolo::sum);
    kolo::barrier(comm);
    return "the mismatch was not noticed";
  } catch (const kolo::error& e) {
    if (e.code() != kolo::errc::mismatch) return "another failure";
    return e.operation().empty() || e.sequence() == 0 ? "the error names no call" : kolo::sentence(e.cause());
  }
};

/// The last rank's message has another tag than is expected.
inline constexpr auto another_tag_is_a_mismatch = [](auto& t) -> std::string {
  const int last = t.size() - 1;
  std::byte data[8]{};
  if (t.rank() == last) {
    auto sent = t.send(0, data, sizeof data, 5);
    t.submit();
    until(t, 0, [&] { return t.done(sent); });
  }
  if (t.rank() != 0) return "";
  auto ticket = t.receive(last, data, sizeof data, 6);
  try {
    t.submit();
    until(t, last, [&] { return t.done(ticket); });
    return "another tag is a mismatch";
  } catch (const kolo::error& e) {
    return e.code() == kolo::errc::mismatch ? "" : "another tag is a mismatch";
  }
};

}  // namespace laws
