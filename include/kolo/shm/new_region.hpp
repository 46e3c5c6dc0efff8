// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// New regions, owned by the rank that makes them: if that fails halfway, their memory is returned.
#pragma once

#include <kolo/shm/mapping.hpp>
#include <kolo/shm/region.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kolo::inline KOLO_ABI::detail::shm {

/// A region that was reserved, as it is mapped in this process.
struct new_region {
  std::uint64_t number = 0;
  std::shared_ptr<std::byte> base{};

  /// Errors, of the memory  the region is then discarded.
  new_region(Mapping auto& memory, std::size_t bytes, auto... how) : number{memory.reserve(bytes)} {
    base =
        core::with_rollback([&] { return memory.map(number, bytes, how...); }, [&] { memory.discard(number, bytes); });
  }
};

/// The region of a group, owned by the rank that makes it for all. When this object goes, a rank that has not come yet
/// never will. If all ranks that came have left by then, the region is discarded.
template <Mapping Memory>
class group_region {
 public:
  group_region(const Memory& memory, const region_shape& shape)
      : memory_{memory}, shape_{shape}, members_{shape.ranks}, made_{memory_, shape.bytes()} {
    construct_region(made_.base.get(), shape);
  }
  group_region(const group_region&) = delete;
  group_region& operator=(const group_region&) = delete;
  ~group_region() {
    for (int r = 0; r < members_; ++r) does_not_come(made_.base.get(), r);
    memory_.seal(made_.number);
    if (all_have_left(made_.base.get(), shape_.ranks)) memory_.discard(made_.number, shape_.bytes());
  }

  std::uint64_t number() const { return made_.number; }
  /// The ranks from `first` on may still come after this object is gone.
  void may_be_late(int first) { members_ = first; }

 private:
  Memory memory_;
  region_shape shape_;
  int members_;
  new_region made_;
};

}  // namespace kolo::inline KOLO_ABI::detail::shm
