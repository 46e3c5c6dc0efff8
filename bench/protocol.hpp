// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages between the driver and the ranks of a group, over a Unix-domain socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kolo_bench {

// Environment variables of every rank.
inline constexpr const char* socket_variable = "KOLO_BENCH_SOCKET";  ///< an abstract name: leaves no file
inline constexpr const char* page_variable = "KOLO_BENCH_PAGE";      ///< a file to map: the group's meeting page

/// A short text inside a message.
template <std::size_t N>
struct label {
  char text[N];
  void operator=(std::string_view s) {
    const auto n = s.size() < N ? s.size() : N - 1;
    std::memset(text, 0, N);
    std::memcpy(text, s.data(), n);
  }
  std::string str() const { return text; }
  bool operator==(std::string_view s) const { return s == text; }
};

/// Rank to driver, once. `offers_bytes` of text follow: a line `collective/algorithm` for each call that it offers.
struct hello {
  std::int32_t rank, size, pid;
  std::uint32_t offers_bytes;
  label<96> version;
};

/// Driver to each rank of a group: one burst.
struct command {
  label<24> collective;
  label<48> algorithm;
  label<16> element;  ///< float, bfloat16, tally
  label<16> place;    ///< in_place, out_of_place
  label<16> buffers;  ///< ordinary, symmetric
  label<16> mode;     ///< hot, touched, cold, back_to_back
  std::uint64_t bytes;
  std::int32_t iterations;
  std::int32_t batch;  ///< calls in one timed window
};

enum class outcome : std::int32_t { done, unsupported, wrong, failed };

/// Rank to driver, for each command. `count` doubles follow: nanoseconds per timed window, from the common start to this rank's end.
struct answer {
  outcome what;
  std::uint32_t count;
  label<400> sentence;
};

/// Reads `bytes` bytes; false if the other side has closed the socket.
inline bool read_all(int fd, void* to, std::size_t bytes) {
  auto* p = static_cast<char*>(to);
  while (bytes > 0) {
    const auto n = ::read(fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

inline bool write_all(int fd, const void* from, std::size_t bytes) {
  const auto* p = static_cast<const char*>(from);
  while (bytes > 0) {
    const auto n = ::send(fd, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

/// The address of an abstract name, and its length.
inline std::pair<sockaddr_un, socklen_t> abstract_address(std::string_view name) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(a.sun_path)) throw std::runtime_error{"the name of a socket is too long"};
  std::memcpy(a.sun_path + 1, name.data(), name.size());
  return {a, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

}  // namespace kolo_bench
