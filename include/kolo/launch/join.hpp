// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a newcomer joins a group of ranks that share memory: it finds them, maps their memory, and waits until it is a
// member.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/launch/meet.hpp>
#include <kolo/launch/rendezvous.hpp>
#include <kolo/shm/group.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <unistd.h>

#include <concepts>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::launch {

/// Where groups over such memory and newcomers meet: processes of a user on this host, or threads of a process.
template <class Memory>
std::string meeting_place(std::string_view meeting) {
  const auto who = std::derived_from<Memory, shm::private_mapping> ? "threads " + std::to_string(::getpid()) : "grow";
  return job_name({}, meeting) + '/' + who;
}

/// A region of processes' memory, as offered to newcomers: its file is sent along.
template <class Memory>
class offered_region {
 public:
  offered_region(const Memory& memory, std::uint64_t region) : file_{memory.fd()}, region_{region} {}
  int file() const { return file_; }
  std::uint64_t number() const { return region_; }
  /// The memory and the region of an offer; empty if the offer is no longer valid.
  static std::optional<std::pair<Memory, std::uint64_t>> taken(admission& a) {
    return std::pair{Memory{shm::shared_mapping{std::move(a.file)}}, a.region};
  }

 private:
  int file_;
  std::uint64_t region_;
};

/// For threads' memory: the process has a list of offers.
template <std::derived_from<shm::private_mapping> Memory>
class offered_region<Memory> {
 public:
  offered_region(const Memory& memory, std::uint64_t region) {
    const std::lock_guard lock{all().mutex};
    all().offers.push_back({number_ = ++all().last, {memory, region}});
  }
  offered_region(const offered_region&) = delete;
  offered_region& operator=(const offered_region&) = delete;
  ~offered_region() {
    const std::lock_guard lock{all().mutex};
    core::erase_if(all().offers, [this](const offer& o) { return o.number == number_; });
  }
  static int file() { return -1; }
  std::uint64_t number() const { return number_; }
  static std::optional<std::pair<Memory, std::uint64_t>> taken(admission& a) {
    const std::lock_guard lock{all().mutex};
    for (const offer& o : all().offers)
      if (o.number == a.region) return o.region;
    return std::nullopt;
  }

 private:
  struct offer {
    std::uint64_t number;
    std::pair<Memory, std::uint64_t> region;
  };
  struct list {
    std::mutex mutex;
    std::vector<offer> offers;
    std::uint64_t last = 0;
  };
  static list& all() {
    static list of_this_process;
    return of_this_process;
  }
  std::uint64_t number_ = 0;
};

/// A newcomer's part in `grow` of the group that calls it at the meeting of that name. `o` has the group's `slot_bytes`
/// and `checked`. `o.timeout`: how long it waits for the group; then their communicator's deadline is its own.
template <class Memory>
shm::slot_transport<Memory> join(std::string_view meeting, const shm::group_options& o) {
  if (meeting.empty()) throw error{errc::invalid_argument, "join takes a name that is not empty"};
  const auto started = rendezvous_clock::now();
  const rendezvous_options me{.rank = newcomer,
                              .size = 0,
                              .name = meeting_place<Memory>(meeting),
                              .timeout = transport::checked_deadline(o.timeout),
                              .terms = terms_of(o.slot_bytes, o.checked),
                              .is_growing = true};
  for (;;) {
    auto a = rendezvous_at(
        me, started, [](os::descriptor) { return admission{}; }, [](admission met) { return met; });
    auto offer = offered_region<Memory>::taken(a);
    if (!offer) continue;  // they have continued without it
    auto& [memory, region] = *offer;
    std::optional<shm::slot_transport<Memory>> mine;
    try {
      const auto shape = shm::head_of(memory.map(region, shm::region_page).get()).shape;
      if (a.rank < shape.ranks) mine.emplace(memory, region, shape, a.rank);
    } catch (const error& e) {
      if (e.code() != errc::mismatch) throw;
    }
    if (!mine) continue;  // discarded since
    a.socket = {};
    mine->await_confirmation({.operation = "join", .peer = 0, .timeout = mine->timeout()});
    return *std::move(mine);
  }
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
