// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks that already share one transport agree with the ranks of their node where to set up another one.
#pragma once

#include <kolo/os/descriptor.hpp>
#include <kolo/os/process.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// Identifies the processes that this one can share memory with: the kernel, and its namespaces of processes and
/// sockets.
struct host_mark {
  std::uint64_t kernel = 0, processes = 0, sockets = 0;
  friend bool operator==(const host_mark&, const host_mark&) = default;
};

inline host_mark this_host() {
  host_mark m{14695981039346656037u, os::namespace_number("/proc/self/ns/pid"),
              os::namespace_number("/proc/self/ns/net")};
  unsigned char id[36]{};
  const os::descriptor file{::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)};
  if (!file && os::is_exhausted(errno)) os::throw_errno("reading the host's identity");
  if (file && ::read(file.get(), id, sizeof id) > 0)
    for (const unsigned char c : id) m.kernel = (m.kernel ^ c) * 1099511628211u;  // FNV-1a
  return m;
}

/// How a rank's part of a collective step ended.
struct outcome {
  bool has_failed = false;
  failure what{};
};
outcome outcome_of(auto f) {
  try {
    f();
    return {};
  } catch (const error& e) {
    return {true, e.cause()};
  } catch (const std::exception& e) {
    return {true, {.code = errc::system, .text = std::string_view{e.what()}}};
  }
}

/// The ranks of one node, as seen by one of them.
class node_group {
 public:
  /// Collective over `all`, for `operation`. Errors, on all ranks  what `prepare()` throws on the first rank where it
  /// throws; invalid_argument: a node's ranks do not share a host.
  node_group(Transport auto& all, const char* operation, auto prepare) : operation_{operation} {
    member_info mine;
    mine.node = all.place().node_rank;
    const auto own = outcome_of([&] {
      mine.host = this_host();
      os::random_letters(sizeof mine.secret).copy(mine.secret, sizeof mine.secret);
      prepare();
    });
    mine.has_failed = own.has_failed ? 1 : 0;
    const auto infos = transport::small_allgather(all, mine, operation_);
    if (std::any_of(infos.begin(), infos.end(), [](const member_info& c) { return c.has_failed != 0; }))
      throw_first(all, own);
    for (int r = 0; r < all.size(); ++r) {
      const auto first = std::find_if(infos.begin(), infos.end(),
                                      [&](const member_info& c) { return c.node == infos[std::size_t(r)].node; });
      if (first->host != infos[std::size_t(r)].host) refuse(r, int(first - infos.begin()));
    }
    for (int r = 0; r < all.size(); ++r)
      if (infos[std::size_t(r)].node == mine.node) members_.push_back(r);
    number_ = int(std::find(members_.begin(), members_.end(), all.rank()) - members_.begin());
    const auto& secret = infos[std::size_t(members_[0])].secret;
    name_ = "kolo/" + std::string(secret, sizeof secret);
  }

  int number() const { return number_; }
  int size() const { return int(members_.size()); }
  const std::string& rendezvous_name() const { return name_; }

  /// Collective over `all`: throws the failure of the first rank that reports one, on all ranks; a timeout only if no
  /// rank reports anything else.
  void compare(Transport auto& all, outcome mine) const {
    const auto failed = transport::small_allgather(all, static_cast<unsigned char>(mine.has_failed), operation_);
    if (std::find(failed.begin(), failed.end(), 1) == failed.end()) return;
    int& peer = mine.what.peer;
    peer = peer >= 0 && peer < size() ? members_[std::size_t(peer)] : -1;
    throw_first(all, mine);
  }

 private:
  struct member_info {
    host_mark host{};
    char secret[24]{};
    std::int32_t node = 0, has_failed = 0;
  };
  static_assert(std::has_unique_object_representations_v<member_info>, "it is sent, so it has no padding");

  /// Called once a rank is known to have failed: the reports are long, so they are exchanged only then.
  void throw_first(Transport auto& all, const outcome& mine) const {
    auto outcomes = transport::small_allgather(all, mine, operation_);
    for (const bool also_late : {false, true})
      for (int r = 0; r < all.size(); ++r) {
        auto& [has_failed, what] = outcomes[std::size_t(r)];
        if (!has_failed || (what.code == errc::timeout && !also_late)) continue;
        what.rank = r;
        throw error{what};
      }
  }
  [[noreturn]] static void refuse(int rank, int first) {
    throw error{errc::invalid_argument, "rank " + std::to_string(rank) + " is said to share a node with rank " +
                                            std::to_string(first) +
                                            ", and is on another host or in another container: they cannot share "
                                            "memory. Say another ranks_per_node, or take mpi::communicator"};
  }

  const char* operation_;
  std::vector<int> members_{};
  std::string name_{};
  int number_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::shm
