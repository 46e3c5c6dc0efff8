// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of a rendezvous, and its sockets.
#pragma once

#include <kolo/os/descriptor.hpp>
#include <kolo/os/process.hpp>
#include <kolo/shm/shared_mapping.hpp>
#include <kolo/transport/sentences.hpp>
#include <kolo/version.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::launch {

using rendezvous_clock = std::chrono::steady_clock;

/// A value that must be equal on all ranks.
struct must_match {
  const char* name;
  std::int64_t value;
};

struct rendezvous_options {
  int rank = 0, size = 1;  ///< of a newcomer, which gets both: `newcomer`, 0
  std::string name;        ///< of the meeting: at most 90 bytes
  std::chrono::nanoseconds timeout{};
  std::vector<must_match> terms;  ///< at most 8
  bool is_growing = false;        ///< newcomers come: any will do, and they are numbered as they come
  int here = 1;                   ///< this many of the ranks are together already: rank 0 waits for the others only
};

inline constexpr int newcomer = -1;  ///< in place of a rank

/// The result on every rank.
struct rendezvous_result {
  shm::shared_mapping memory;
  std::uint64_t region;
};

/// What another rank gets from rank 0.
struct admission {
  os::descriptor file;    ///< the memory, if it is a file
  std::uint64_t region;   ///< in it
  int rank;               ///< of this one
  os::descriptor socket;  ///< rank 0 detects when it is closed
};

inline constexpr std::uint64_t rendezvous_magic = 0x6b6f6c6f'6d656574;  // "kolo" "meet"
inline constexpr std::int32_t rendezvous_protocol_version = 1;

/// A rank's first message to rank 0. The fields before `size` are the same in every version.
struct hello_message {
  std::uint64_t magic = rendezvous_magic;
  std::int32_t protocol = rendezvous_protocol_version;
  std::int32_t rank = 0;
  std::array<std::int32_t, 3> version{version_major, version_minor, version_patch};
  std::int32_t size = 0;
  std::int32_t pid = 0;
  std::int32_t unused = 0;
  std::int64_t remaining_ns = 0;  ///< how long it will wait
  std::array<std::int64_t, 8> terms{};

  std::string version_text() const {
    return "kolo " + std::to_string(version[0]) + '.' + std::to_string(version[1]) + '.' + std::to_string(version[2]) +
           " (protocol " + std::to_string(protocol) + ")";
  }
};

/// Rank 0's answer. The same in every version.
struct reply {
  std::uint64_t magic = rendezvous_magic;
  std::uint64_t region = 0;
  errc code{};             ///< errc{}: accepted, and the segment comes along
  std::int32_t peer = -1;  ///< or the number of the accepted rank
  fixed_text<256> text{};

  failure as_failure(int rank, std::chrono::nanoseconds waited) const {
    return {
        .code = code, .rank = rank, .peer = peer, .waited_ns = waited.count(), .operation = "rendezvous", .text = text};
  }
};

static_assert(std::has_unique_object_representations_v<hello_message> &&
              std::has_unique_object_representations_v<reply>);

template <class Used = void>
hello_message greet(const rendezvous_options& options, std::chrono::nanoseconds remaining) {
  hello_message hello;
  if (options.terms.size() > hello.terms.size())
    throw error{errc::invalid_argument, "too many terms for one message of the rendezvous"};
  hello.rank = options.rank;
  hello.size = options.size;
  hello.pid = ::getpid();
  hello.remaining_ns = remaining.count();
  std::transform(options.terms.begin(), options.terms.end(), hello.terms.begin(),
                 [](const must_match& t) { return t.value; });
  return hello;
}

inline int milliseconds_until(
    rendezvous_clock::time_point t) {  // rounded up, and never negative, which would mean for ever
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(t - rendezvous_clock::now()).count();
  return int(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

inline os::descriptor new_socket() {
  os::descriptor s{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!s) os::throw_errno("making the rendezvous socket");
  return s;
}

/// An abstract name: it is in no file system, and goes with the socket.
struct socket_address {
  sockaddr_un name{};
  socklen_t length;
  explicit socket_address(const std::string& text) {
    if (text.size() + 1 > sizeof name.sun_path) throw error{errc::invalid_argument, "the name is too long: " + text};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

/// Empty if the name is taken.
inline os::descriptor listen_at(const std::string& name) {
  os::descriptor s = new_socket();
  const socket_address here{name};
  if (::bind(s.get(), here.get(), here.length) != 0) {
    if (errno == EADDRINUSE) return {};
    os::throw_errno("binding the rendezvous socket");
  }
  if (::listen(s.get(), SOMAXCONN) != 0) os::throw_errno("listening for the other ranks");
  return s;
}

/// Empty if no process listens there, or its backlog is full.
inline os::descriptor connect_to(const std::string& name) {
  os::descriptor s = new_socket();
  const socket_address there{name};
  if (::connect(s.get(), there.get(), there.length) == 0) return s;
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR || errno == ENOENT || errno == EPROTOTYPE) return {};
  os::throw_errno("connecting to rank 0");
}

/// Where rank 0 listens if its name is taken already: a place that no process can take beforehand, and that all ranks
/// can find. No name begins like this, so it is no other meeting's.
inline std::string further_place(const std::string& name) { return '#' + os::random_letters(16) + name; }

/// All such places in `sockets`, which is the kernel's list of them; its holder is checked after connecting.
template <class Used = void>
std::vector<std::string> further_places(const std::string& name, std::string_view sockets) {
  constexpr std::size_t before = 17;  // characters
  const std::string ending = name + '\n';
  std::vector<std::string> found;
  for (auto at = sockets.find(ending); at != sockets.npos; at = sockets.find(ending, at + 1))
    if (at > before && sockets.substr(at - before - 1, 2) == "@#")
      found.emplace_back(sockets.substr(at - before, before + name.size()));
  return found;
}

inline ucred peer_of(int socket) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    os::throw_errno("reading a peer's credentials");
  return who;
}

/// A message that carries one descriptor, or none.
struct fd_message {
  iovec bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};

  fd_message(void* data, std::size_t size, bool with_descriptor) : bytes{data, size} {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    if (!with_descriptor) return;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  fd_message(const fd_message&) = delete;
  fd_message& operator=(const fd_message&) = delete;
};

/// Does not report whether the message arrives: a closed connection is detected elsewhere. False, with `errno` set: the
/// system has no room for it now.
inline bool send_reply(int socket, reply v, int fd = -1) {
  fd_message p{&v, sizeof v, fd >= 0};
  if (cmsghdr* const c = CMSG_FIRSTHDR(&p.header)) {
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  ssize_t n;
  do n = ::sendmsg(socket, &p.header, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n >= 0 || !os::is_exhausted(errno);
}

/// Empty if the other end has closed, or its message is not a reply.
/// Errors  out_of_resources: there is no descriptor for the file.
inline std::optional<reply> receive_reply(int socket, os::descriptor& file) {
  constexpr const char* receiving = "receiving the shared segment";
  reply v;
  fd_message p{&v, sizeof v, true};
  ssize_t n;
  do n = ::recvmsg(socket, &p.header, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  for (cmsghdr* c = n < 0 ? nullptr : CMSG_FIRSTHDR(&p.header); c != nullptr; c = CMSG_NXTHDR(&p.header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int fd;
    std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
    file = os::descriptor{fd};
    if (!file) os::throw_errno(receiving);
  }
  if (n >= 0 && (p.header.msg_flags & MSG_CTRUNC) != 0) os::throw_errno(receiving, EMFILE);
  if (n != static_cast<ssize_t>(sizeof v) || v.magic != rendezvous_magic) return std::nullopt;
  return v;
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
