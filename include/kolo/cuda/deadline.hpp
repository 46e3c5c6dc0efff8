// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the host waits for what is on a stream: it looks, and gives up when its deadline has passed.
#pragma once

#include <kolo/transport/progress.hpp>
#include <kolo/transport/sentences.hpp>
#include <kolo/transport/transport.hpp>

#include <string>
#include <thread>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// What a stream has to come to, and what it may be when it does not.
struct goal {
  const char* where;
  const char* reason;
};
inline constexpr goal the_operation{"the operation", ""},
    its_end{"its end",
            ": a rank is late, or does something else, or waits for the requests of two communicators on devices in "
            "another order"};

/// A fruitless look at `what`: when s.timeout has passed since the first one, and nothing has failed before, that is
/// the failure of all ranks, and thrown.
void give_up_when_late(auto& transport, backoff& p, wait_context s, const char* what, const goal& to) {
  const auto waited = p.waited(backoff::clock::now());
  if (waited <= s.timeout || transport.failed()) return;
  s.peer = -1;
  throw error{transport.fail(failure_from(
      s, errc::timeout, transport.rank(), waited,
      std::string{what} + " has not come to " + to.where + " within " + transport::in_seconds(s.timeout) + to.reason))};
}

/// What follows a fruitless look while only this rank's own stream is waited for: no peer notifies it, so it never
/// sleeps.
void relax_for_stream(auto& transport, backoff& p, const wait_context& s) {
  if (p.count_poll() % 64 == 0) transport.check(p, s);
  if (p.polls > 16) std::this_thread::yield();
}

/// Until has_passed() says that this rank's own stream has come there. A failure of any rank that the transport has
/// heard of, or the deadline, ends the waiting, and not what is on the stream.
void wait_for_stream(auto& transport, const wait_context& s, const goal& to, auto has_passed) {
  for (backoff p; !has_passed(); std::this_thread::yield()) {
    if (const failure* f = transport.failed()) throw error{*f};
    give_up_when_late(transport, p, s, "its own stream", to);
    transport::progress_others(nullptr);
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::cuda
