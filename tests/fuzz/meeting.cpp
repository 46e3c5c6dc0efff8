// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the messages on the socket of a rendezvous: a hello at rank 0, a reply at the others.
#include <kolo/launch/rendezvous.hpp>

#include <thread>

#include "fuzz/fuzz.hpp"

namespace {

using namespace kolo::detail::launch;
using kolo::detail::os::descriptor;

/// Rank 0 receives `data` from a client that then disconnects.
void greet_host(const std::uint8_t* data, std::size_t size) {
  const rendezvous_options i{.rank = 0,
                             .size = 2,
                             .name = "fuzz/" + std::to_string(::getpid()),
                             .timeout = std::chrono::milliseconds{20},
                             .terms = {{"slots", 4}}};
  auto listener = listen_at(i.name);
  std::jthread connection{[&] {
    const auto socket = connect_to(i.name);
    if (socket) (void)!::send(socket.get(), data, size, MSG_NOSIGNAL);
  }};
  try {
    rendezvous_server{i, std::move(listener), rendezvous_clock::now()}.receive(
        [](kolo::detail::shm::shared_mapping& m, const auto&) { return m.reserve(1); });
  } catch (const kolo::error& e) {
    fuzz::expect(e.code() == kolo::errc::timeout || e.code() == kolo::errc::mismatch ||
                 e.code() == kolo::errc::peer_died);
  }
}

void hear_reply(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  fuzz::expect(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const descriptor here{ends[0]}, there{ends[1]};
  (void)!::send(there.get(), data, size, MSG_NOSIGNAL);
  ::shutdown(there.get(), SHUT_WR);
  descriptor file;
  if (const auto said = receive_reply(here.get(), file)) (void)kolo::error{said->as_failure(1, {})}.what();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hear_reply(data, size);
  if (size < 200) greet_host(data, size);
  return 0;
}
