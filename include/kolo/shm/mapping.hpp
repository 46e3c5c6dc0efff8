// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of memory that several ranks address, and its model for the threads of one process.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/rank.hpp>
#include <kolo/core/text.hpp>
#include <kolo/transport/transport.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// A memory that several members map, region by region.
///
/// * `reserve(n)`: a new region of at least n bytes, page-aligned and zero; never 0, never returned twice
/// * `map(r, n)`: the first n bytes of region r; the same bytes for all that map it; unmapped with the last copy
/// * `seal(r)`: called once, after every member that will ever map r has done so: r then lives as long as it is mapped
/// * `discard(r, n)`: called when no member uses r any more, possibly more than once: returns its memory to the system
/// * `make_remote_ref(p, n)`: how the other members can refer to n bytes at p; empty if p is memory of this member
///   alone
///
/// Laws: regions are disjoint, also when reserved at the same moment; untouched bytes take no memory; a handle may be
/// copied, and all copies are one memory; every member function may be called from any thread.
template <class M>
concept Mapping = std::copyable<M> && requires(M& m, std::uint64_t region, std::size_t bytes) {
  { m.reserve(bytes) } -> std::same_as<std::uint64_t>;
  { m.map(region, bytes) } -> std::same_as<std::shared_ptr<std::byte>>;
  m.seal(region);
  m.discard(region, bytes);
  { m.make_remote_ref(std::declval<const std::byte*>(), bytes) } -> std::same_as<remote_ref>;
};

/// A Mapping whose members are processes, so that one of them may be stopped at any point.
///
///   begin_lending()   until end_lending(), this member refers others to its memory; such spans may overlap
///   seclude(f, n)     no other member writes to those n bytes from now on, even one that was referred to them; false:
///                     not possible
template <class M>
concept Secluding = requires(const M& m, remote_ref r, std::size_t bytes) {
  m.begin_lending(), m.end_lending();
  { m.seclude(r, bytes) } -> std::same_as<bool>;
};

/// A Mapping that maps a region when another member refers to it. Any other Mapping has `resolve(f, n)`, which returns
/// the address.
///
///   expect_inside(f, n)   throws if the n bytes from f on are not inside its region
///   window_of(f)          the whole region; it stays mapped as long as the pointer is held
template <class M>
concept MapsWhenReferred = requires(const M& m, remote_ref r, std::size_t bytes) {
  M::expect_inside(r, bytes);
  { m.window_of(r) } -> std::same_as<std::shared_ptr<std::byte>>;
};

inline std::size_t page_size() noexcept { return std::size_t(::sysconf(_SC_PAGESIZE)); }

/// `bytes` rounded up to whole pages, at least one; throws for more than any machine could address.
inline std::size_t whole_pages(std::size_t bytes) {
  if (bytes > std::size_t{1} << 46)
    core::throw_error(errc::out_of_resources, {bytes, " bytes of memory were asked for, more than can be addressed"});
  return core::rounded_up(std::max<std::size_t>(bytes, 1), page_size());
}

[[gnu::cold, gnu::noinline]] inline std::shared_ptr<std::byte> map_pages(std::size_t bytes, int flags, int fd,
                                                                         std::uint64_t offset) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    const std::string why = std::generic_category().message(errno);
    core::throw_error(errc::out_of_resources, {"mapping ", bytes, " bytes of memory: ", why, "; see `ulimit -v`"});
  }
  return {static_cast<std::byte*>(address), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

/// Memory that the threads of one process share. Until `seal` this object keeps a region alive, afterwards those that
/// map it do.
class private_mapping {
 public:
  std::uint64_t reserve(std::size_t bytes) {
    const std::size_t length = whole_pages(bytes);
    auto memory = map_pages(length, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::lock_guard lock{state_->mutex};
    core::erase_if(state_->regions, [](const mapped_region& r) { return r.memory.expired(); });
    state_->regions.push_back({state_->next, memory, memory, length});
    return state_->next++;
  }

  std::shared_ptr<std::byte> map(std::uint64_t region, std::size_t bytes) const {
    const std::lock_guard lock{state_->mutex};
    const mapped_region* const found = state_->find(region);
    auto memory = !found || bytes > found->length ? nullptr : found->memory.lock();
    if (!memory) core::throw_error(errc::mismatch, {"no region ", region, " of ", bytes, " bytes"});
    return memory;
  }

  void seal(std::uint64_t region) const {
    std::shared_ptr<std::byte> last;  // unmapped after the lock is released
    const std::lock_guard lock{state_->mutex};
    if (mapped_region* const found = state_->find(region)) last = std::move(found->held);
  }

  void discard(std::uint64_t region, std::size_t) const { seal(region); }

  /// Threads of one process share its address space.
  static remote_ref make_remote_ref(const std::byte* data, std::size_t) {
    return {0, 1, reinterpret_cast<std::uintptr_t>(data)};
  }
  static std::byte* resolve(const remote_ref& r, std::size_t) { return reinterpret_cast<std::byte*>(r.offset); }

 private:
  struct mapped_region {
    std::uint64_t number;
    std::weak_ptr<std::byte> memory;
    std::shared_ptr<std::byte> held;
    std::size_t length;
  };
  struct state {
    std::mutex mutex;
    std::vector<mapped_region> regions;
    std::uint64_t next = 1;

    mapped_region* find(std::uint64_t number) {
      for (mapped_region& r : regions)
        if (r.number == number) return &r;
      return nullptr;
    }
  };

  std::shared_ptr<state> state_ = core::shared<state>();
};

static_assert(Mapping<private_mapping>);

}  // namespace kolo::inline KOLO_ABI::detail::shm
