// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that is kept between operations, so that they allocate nothing.
#pragma once

#include <kolo/transport/abilities.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Where elements lie that are neither in the user's views nor on the wire. A transport whose elements are not in the
/// host's memory brings an executor of its own (see execute/executor.hpp), which allocate as well.
struct host_memory {
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  using allocation = std::unique_ptr<std::byte, release>;
  static allocation allocate(std::size_t bytes) {
    return allocation{static_cast<std::byte*>(::operator new(bytes, alignment))};
  }
};

template <class T>
auto memory_of(const T& transport) {
  if constexpr (HasExecutor<T>) return transport.executor();
  else return host_memory{};
}

/// Memory that grows to its largest use and is then never allocated again. One operation at a time uses it.
template <class Memory = host_memory>
class pool {
 public:
  std::byte* at_least(std::size_t bytes, const Memory& memory = {}) {
    if (bytes > size_) {
      memory_ = {};
      memory_ = memory.allocate(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  typename Memory::allocation memory_{};
  std::size_t size_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
