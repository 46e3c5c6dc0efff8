// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport of one rank, without peers.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/transport/abilities.hpp>

#include <optional>

namespace kolo::inline KOLO_ABI::self {

/// Models SlotTransport, with slots that are never used.
class transport {
 public:
  using abilities = kolo::abilities<ability::shrink, ability::flush>;
  /// The options of a call.
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; never needed
  };

  int rank() const { return 0; }
  int size() const { return 1; }
  placement place() const { return {}; }
  std::chrono::nanoseconds timeout() const { return std::chrono::minutes{5}; }

  const failure* failed() const { return failure_ ? &*failure_ : nullptr; }
  const failure& fail(const failure& f) { return failure_ ? *failure_ : failure_.emplace(f); }
  void relax(backoff& p, const wait_context& s) { check(p, s); }
  void check(backoff&, const wait_context&) {
    if (failure_) throw error{*failure_};
  }
  transport split(int, int) { return {}; }
  transport shrink(std::chrono::nanoseconds) { return {}; }

  std::size_t slot_bytes() const { return ~std::size_t{0}; }
  std::byte* reserve(int) { return nullptr; }
  void commit(int, std::size_t, std::uint64_t) {}
  received_slot peek(int) { return {}; }
  void release(int) {}
  void flush() {}

 private:
  std::optional<failure> failure_{};
};

/// The communicator of a rank that is alone: every collective is a copy.
using communicator = kolo::communicator<transport>;

}  // namespace kolo::inline KOLO_ABI::self

namespace kolo::inline KOLO_ABI::detail::execute {
template <>
inline constexpr bool is_in_library<self::transport> = true;
}  // namespace kolo::inline KOLO_ABI::detail::execute
