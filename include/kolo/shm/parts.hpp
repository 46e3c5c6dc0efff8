// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One region in which every rank has a part, and all ranks address all parts.
#pragma once

#include <kolo/core/own_process.hpp>
#include <kolo/core/text.hpp>
#include <kolo/shm/mapping.hpp>
#include <kolo/shm/new_region.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// Released when the last rank drops it; a copy that a fork made does not count.
struct parts {
  std::shared_ptr<std::byte> owner;
  std::size_t stride;
  std::byte* part(int rank) const { return owner.get() + region_page + std::size_t(rank) * stride; }
};

/// Collective: a part of `bytes`, zero and page-aligned, for each rank. Errors  invalid_argument: ranks ask for
/// different lengths; out_of_resources: more than can be addressed.
parts make_parts(auto& transport, Mapping auto& memory, std::size_t bytes) {
  struct request {
    std::uint64_t bytes, region;
  };
  const int rank = transport.rank();
  std::vector<request> all(std::size_t(transport.size()));
  // A length that cannot be addressed is rejected after the comparison: ranks that ask for less would wait for this
  // one.
  const bool fits = bytes <= (std::size_t{1} << 46) / (all.size() + 1);
  const auto stride = fits ? core::rounded_up(bytes, region_page) : 0;
  const auto total = region_page + stride * all.size();
  std::shared_ptr<std::byte> base;
  all[std::size_t(rank)].bytes = bytes;
  const auto hold = [&](std::shared_ptr<std::byte> mapped) {
    const auto users = reinterpret_cast<std::atomic<std::uint32_t>*>(mapped.get());  // in the first page
    users->fetch_add(1, std::memory_order_relaxed);
    base = {mapped.get(),
            [memory, mapped, region = all[0].region, total, users, owner = core::own_process{}](std::byte*) mutable {
              if (owner.is_this() && users->fetch_sub(1, std::memory_order_acq_rel) == 1) memory.discard(region, total);
            }};
  };
  if (rank == 0 && fits)
    transport::sharing_failure(transport, "symmetric", [&] {
      const new_region made{memory, total};
      all[0].region = made.number;
      hold(made.base);
    });
  transport::small_allgather(transport, all.data(), sizeof(request), "symmetric");
  for (int r = 0; r < transport.size(); ++r)
    if (const std::size_t theirs = all[std::size_t(r)].bytes; theirs != bytes)
      core::throw_error(errc::invalid_argument, {"symmetric memory is as long on every rank: ", bytes, " bytes here, ",
                                                 theirs, " on rank ", r});
  if (!fits)
    core::throw_error(errc::out_of_resources,
                      {bytes, " bytes for each of ", all.size(), " ranks are more than can be addressed"});
  if (!base) transport::sharing_failure(transport, "symmetric", [&] { hold(memory.map(all[0].region, total)); });
  transport::small_barrier(transport, "symmetric");
  if (rank == 0) memory.seal(all[0].region);
  return {std::move(base), stride};
}

}  // namespace kolo::inline KOLO_ABI::detail::shm
