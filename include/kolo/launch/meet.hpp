// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks set up shared memory: by a name that they know, or among the ranks of another transport.
#pragma once

#include <kolo/execute/comparison.hpp>
#include <kolo/launch/rendezvous.hpp>
#include <kolo/shm/group.hpp>
#include <kolo/shm/node_group.hpp>
#include <kolo/shm/slot_transport.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <optional>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::launch {

/// Options that must be equal on all ranks over shared memory, also on those that come later.
template <class Used = void>
std::vector<must_match> terms_of(std::size_t slot_bytes, bool checked) {
  return {{"slot_bytes", std::int64_t(slot_bytes)}, {"checked", checked || execute::is_checked_by_environment()}};
}

/// Rank `rank` of `size` on this host, which meet at that name. `check`: passed to `rendezvous`. `count`: incremented
/// when this rendezvous has completed.
template <std::same_as<kolo::shm::transport> T = kolo::shm::transport, class Check = decltype(progress_only)>
T meet(int rank, int size, std::string name, const kolo::shm::options& o, std::chrono::nanoseconds timeout,
       Check check = progress_only, std::atomic<unsigned>* count = nullptr) {
  shm::region_shape shape{size, o};
  const auto prepare = [&](shm::shared_mapping& memory, const std::vector<os::process_id>& members) {
    const auto region = T::initialise(memory, shape);
    T::introduce(memory, region, shape, members);
    return region;
  };
  if (size == 1) {
    shm::shared_mapping memory;
    const auto region = prepare(memory, {os::this_process()});
    return {memory, region, shape, 0};
  }
  launch::rendezvous_options rendezvous_options{.rank = rank,
                                                .size = size,
                                                .name = std::move(name),
                                                .timeout = std::min(timeout, shape.timeout),
                                                .terms = terms_of(o.slot_bytes, o.checked)};
  rendezvous_options.terms.push_back({"ranks_per_node", o.ranks_per_node});
  rendezvous_options.terms.push_back({"timeout", o.timeout.count()});
  auto met = rendezvous(rendezvous_options, prepare, check);
  if (count) ++*count;
  try {
    shape = shm::head_of(met.memory.map(met.region, shm::region_page).get()).shape;  // cores may differ in their caches
    return {met.memory, met.region, shape, rank};
  } catch (...) {  // the others count this rank as one that has come
    T::announce_death(met.memory, met.region, shape, rank);
    throw;
  }
}

/// Collective over `all`, for `operation`. The ranks wait for each other as long as `o.timeout`, and no longer than the
/// timeout of `all`. Errors, on all of them  the failure of the first rank that reports one.
kolo::shm::transport make_node_transport(Transport auto& all, const kolo::shm::options& o, const char* operation) {
  const auto has_what_it_needs = [&] {  // once the others wait at the meeting, a rank cannot tell them that it lacks it
    shm::region_shape{1, o};
    const os::descriptor needed[]{new_socket(), new_socket()};
  };
  const shm::node_group here{all, operation, has_what_it_needs};
  std::optional<kolo::shm::transport> made;
  backoff p;
  const auto none_has_failed = [&] {
    all.check(p, {.operation = operation, .timeout = std::chrono::hours{10'000}});  // the rendezvous reports lateness
    return transport::pause_between(transport::progress_others(nullptr), std::chrono::milliseconds{20});
  };
  here.compare(
      all, shm::outcome_of([&] {
        made.emplace(meet(here.number(), here.size(), here.rendezvous_name(), o, all.timeout(), none_has_failed));
      }));
  return *std::move(made);
}

}  // namespace kolo::inline KOLO_ABI::detail::launch
