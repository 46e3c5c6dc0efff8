// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that is kept between operations, so that they need not allocate.
#pragma once

#include <kolo/transport/abilities.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The memory of elements that are neither in the user's views nor on the wire. A transport whose elements are not in
/// the host's memory has an executor of its own (see execute/executor.hpp), which allocates as well.
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

/// Memory that grows to its largest use and is then never allocated again. One operation at a time uses it. Freeing a
/// device's memory may wait for its streams: outgrown blocks stay until the end there, and together take no more than
/// the current one, if there is memory for that.
template <class Memory = host_memory>
class growing_buffer {
 public:
  std::byte* at_least(std::size_t bytes, const Memory& memory = {}) {
    if (bytes > size_) grow(bytes, memory);
    return memory_.get();
  }
  /// It is leaked: work that may never end may still use it.
  void abandon() {
    static_cast<void>(memory_.release());
    if constexpr (!frees_at_once)
      for (auto& m : outgrown_) static_cast<void>(m.release());
  }

 private:
  using allocation = typename Memory::allocation;
  static constexpr bool frees_at_once = std::is_base_of_v<host_memory, Memory>;
  struct none {};

  void grow(std::size_t bytes, const Memory& memory) {
    allocation larger{};
    if constexpr (frees_at_once) {
      size_ = 0;
      memory_ = {};
    } else if (memory_) {
      outgrown_.reserve(outgrown_.size() + 1);
      const std::size_t doubled = 2 * size_;
      try {
        if (doubled > bytes) larger = memory.allocate(doubled), bytes = doubled;
      } catch (const std::exception&) {  // `bytes` may still be available
      }
    }
    if (!larger) larger = memory.allocate(bytes);
    if constexpr (!frees_at_once)
      if (memory_) outgrown_.push_back(std::move(memory_));
    memory_ = std::move(larger);
    size_ = bytes;
  }

  allocation memory_{};
  std::size_t size_ = 0;
  [[no_unique_address]] std::conditional_t<frees_at_once, none, std::vector<allocation>> outgrown_{};
};

/// The scratch of one running operation.
template <class Memory>
struct scratch {
  growing_buffer<> state{};             ///< of the operation itself
  growing_buffer<Memory> blocks{};      ///< intermediate blocks
  growing_buffer<Memory> staging[2]{};  ///< messages

  void abandon() {
    for (auto* const p : {&blocks, &staging[0], &staging[1]}) p->abandon();
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
