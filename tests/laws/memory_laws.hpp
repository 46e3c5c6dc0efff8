// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::SharesMemory, each a function that every rank calls with its communicator; it returns the law that is broken, or nothing.
#pragma once

#include <kolo/kolo.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace laws {

inline constexpr auto symmetric_memory_is_zeroed_aligned_and_common = [](auto& comm) -> std::string {
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    auto x = kolo::symmetric<int>(comm, n);
    if (x.size() != n || reinterpret_cast<std::uintptr_t>(x.data()) % 4096 != 0)
      return "symmetric memory is page-aligned, and long enough";
    if (std::any_of(x.begin(), x.end(), [](int i) { return i != 0; })) return "symmetric memory is zeroed";
    kolo::barrier(comm);
    for (std::size_t i = 0; i < n; ++i) x[i] = comm.rank() * 1000 + static_cast<int>(i % 1000);
    kolo::barrier(comm);
    for (int r = 0; r < comm.size(); ++r)
      for (std::size_t i = 0; i < n; i += 1 + n / 50)
        if (x.of(r)[i] != r * 1000 + static_cast<int>(i % 1000)) return "a rank reads what a peer has written";
    kolo::barrier(comm);
    kolo::allreduce(comm, x, kolo::max);
    if (x[0] != (comm.size() - 1) * 1000) return "symmetric memory is a view";
  }
  return "";
};

inline constexpr auto symmetric_memory_outlives_its_communicator = [](auto& comm) -> std::string {
  auto child = std::make_unique<std::remove_reference_t<decltype(comm)>>(comm.split(0, comm.rank()));
  const auto x = kolo::symmetric<int>(*child, 10);
  child.reset();
  x[9] = comm.rank() + 1;
  kolo::barrier(comm);
  const int next = (comm.rank() + 1) % comm.size();
  const bool right = x.of(next)[9] == next + 1;
  kolo::barrier(comm);
  return right ? "" : "symmetric memory exists until the last rank has dropped it";
};

/// Many times: memory that is dropped is returned to the system.
inline constexpr auto symmetric_memory_comes_and_goes = [](auto& comm) -> std::string {
  for (int k = 0; k < 50; ++k) {
    auto x = kolo::symmetric<std::byte>(comm, 100'000);
    if (x[99'999] != std::byte{0}) return "symmetric memory is zeroed, also if it was used before";
    x[99'999] = std::byte{1};
  }
  return "";
};

}  // namespace laws
