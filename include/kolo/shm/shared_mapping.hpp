// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that processes share, through an unnamed file.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/core/text.hpp>
#include <kolo/os/descriptor.hpp>
#include <kolo/shm/mapping.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::shm {

/// The first page of the file that processes share.
struct segment_header {
  static constexpr std::uint64_t expected_magic = 0x6b6f6c6f'73656731;  // "kolo" "seg1"
  std::uint64_t magic;
  std::uint32_t version;            // of this layout
  std::uint32_t eager;              // 1: space is taken when it is reserved, since the file system may be small
  std::atomic<std::uint64_t> next;  // the first byte that no region has
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Where the shared bytes may lie.
enum class backing {
  automatic,  ///< in a memfd, which no mount limits; without memfd, in /dev/shm
  dev_shm     ///< in an unnamed file in /dev/shm
};

/// `common`: others map the region as well; `alone`: others address it only by references.
enum class ownership { common, alone };

/// Memory that processes share: an unnamed file, which ends with the last process that holds it, however that process
/// ends. Other processes get it by fork or through a Unix socket; regions are offsets in the file.
class shared_mapping {
 public:
  [[gnu::cold, gnu::noinline]] explicit shared_mapping(backing where = backing::automatic)
      : state_{core::shared<state>()} {
    check_limit(page_size());
    if (where == backing::automatic) state_->fd = in_memory();
    const bool eager = !state_->fd;
    if (eager) state_->fd = in_dev_shm();
    grow(0, page_size(), eager);
    open_header();
    state_->header->version = 1;
    state_->header->eager = eager ? 1 : 0;
    state_->header->next = page_size();
    state_->header->magic = segment_header::expected_magic;
  }

  /// Takes over a descriptor that another process of this user sent.
  [[gnu::cold, gnu::noinline]] explicit shared_mapping(os::descriptor fd) : state_{core::shared<state>()} {
    state_->fd = std::move(fd);
    struct stat status;
    if (::fstat(state_->fd.get(), &status) != 0) os::throw_errno("reading the shared segment");
    if (!S_ISREG(status.st_mode) || std::size_t(status.st_size) < page_size())
      throw error{errc::mismatch, "the descriptor received is not a shared segment"};
    if (status.st_uid != ::geteuid()) {
      core::throw_error(errc::mismatch,
                        {"the shared segment belongs to user ", status.st_uid, ", not to user ", ::geteuid()});
    }
    open_header();
    if (state_->header->magic != segment_header::expected_magic || state_->header->version != 1)
      throw error{errc::mismatch, "the shared segment was made by another version of the library"};
  }

  int fd() const noexcept { return state_->fd.get(); }
  /// Regions take memory when they are reserved, not when touched.
  bool is_eager() const noexcept { return state_->header->eager != 0; }

  [[gnu::cold, gnu::noinline]] std::uint64_t reserve(std::size_t bytes) {
    const std::uint64_t length = whole_pages(bytes);
    std::uint64_t first = state_->header->next.load();
    do check_limit(first + length);
    while (!state_->header->next.compare_exchange_weak(first, first + length));
    grow(first, length, state_->header->eager != 0);
    return first;
  }

  /// `whose`: whether others map this region too, or only get references to it.
  [[gnu::cold, gnu::noinline]] std::shared_ptr<std::byte> map(std::uint64_t region, std::size_t bytes,
                                                              ownership whose = ownership::common) const {
    const std::size_t length = whole_pages(bytes);
    struct stat status;
    if (::fstat(fd(), &status) != 0) os::throw_errno("reading the shared segment");
    const auto size = std::uint64_t(status.st_size);
    if (region < page_size() || region % page_size() != 0 || region > size || length > size - region) {
      core::throw_error(errc::mismatch, {"no region of ", bytes, " bytes at offset ", region,
                                         " of a shared segment of ", size, " bytes"});
    }
    const auto mapped = [&] { return map_pages(length, MAP_SHARED, fd(), region); };
    std::shared_ptr<std::byte> memory;
    try {
      memory = mapped();
    } catch (const error&) {  // others' regions are mapped again on demand
      const std::lock_guard lock{state_->mutex};
      if (std::exchange(state_->pinned, 0) == 0) throw;
      for (window& w : state_->windows) w.pinned.reset();
      memory = mapped();
    }
    const std::lock_guard lock{state_->mutex};
    core::erase_if(state_->windows, [](const window& w) { return w.memory.expired(); });
    state_->windows.push_back({memory.get(), length, region, memory, whose});
    return memory;
  }

  remote_ref make_remote_ref(const std::byte* data, std::size_t bytes) const {
    const std::lock_guard lock{state_->mutex};
    for (const window& s : state_->secluded)
      if (s.begin < data + bytes && data < s.begin + s.length) return {};
    for (const window& w : state_->windows)
      if (w.begin <= data && data + bytes <= w.begin + w.length && !w.memory.expired())
        return {w.region, w.length, std::uint64_t(data - w.begin)};
    return {};
  }

  static void expect_inside(const remote_ref& r, std::size_t bytes) {
    if (bytes > r.length || r.offset > r.length - bytes)
      throw error{errc::mismatch, "a peer refers to an address past the end of its region"};
  }
  /// The whole region of `r`, as it is mapped in this process. Others' regions stay mapped until address space runs
  /// out, and freed ones until the total of pinned bytes has doubled.
  /// Errors  mismatch: it does not lie in this segment.
  std::shared_ptr<std::byte> window_of(const remote_ref& r) const {
    if (auto here = find(r)) return here;
    auto memory = map(r.region, r.length);
    const std::lock_guard lock{state_->mutex};
    state& s = *state_;
    for (window& w : s.windows)
      if (w.begin == memory.get() && !w.memory.expired()) w.pinned = memory;
    if ((s.pinned += r.length) <= s.most_pinned) return memory;
    s.pinned = 0;
    for (window& w : s.windows)
      if (w.pinned && is_hole(w)) w.pinned.reset();
      else if (w.pinned) s.pinned += w.length;
    s.most_pinned = std::max(least_pinned, 2 * s.pinned);
    return memory;
  }

  void seal(std::uint64_t) const noexcept {}  // the file keeps the region

  void discard(std::uint64_t region, std::size_t bytes) const noexcept { punch(region, whole_pages(bytes)); }

  // Memory that a peer may still write to when it resumes (see Secluding).

  void begin_lending() const noexcept { state_->lending.fetch_add(1, std::memory_order_relaxed); }
  void end_lending() const noexcept { state_->lending.fetch_sub(1, std::memory_order_relaxed); }

  /// Makes the pages of those bytes private to this process, with their contents, including writes of other threads
  /// meanwhile: they are remapped MAP_PRIVATE, and the kernel copies them when they are written. No peer is referred to
  /// them any more. Fails if others map the region too, or if anything is lent: it might lie on the same pages.
  [[gnu::cold, gnu::noinline]] bool seclude(const remote_ref& r, std::size_t bytes) const noexcept {
    const std::lock_guard lock{state_->mutex};
    const window* found = nullptr;
    for (const window& w : state_->windows)
      if (!found && w.region == r.region && !w.memory.expired()) found = &w;
    if (!found) return true;  // it was freed
    if (found->whose != ownership::alone || state_->lending.load(std::memory_order_relaxed) != 0) return false;
    const auto page = page_size();
    const auto first = r.offset / page * page, end = core::rounded_up(r.offset + bytes, page);
    auto* const begin = found->begin + first;
    for (const window& s : state_->secluded)
      if (s.begin <= begin && begin + (end - first) <= s.begin + s.length) return true;
    try {
      state_->secluded.push_back({begin, end - first});
    } catch (const std::bad_alloc&) {
      return false;
    }
    if (::mmap(begin, end - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd(),
               static_cast<off_t>(r.region + first)) == MAP_FAILED)
      return state_->secluded.pop_back(), false;
    for (auto* p = begin; p < begin + (end - first); p += page) {  // an exchange of a value with itself is a write
      auto* const byte = reinterpret_cast<unsigned char*>(p);
      auto same = __atomic_load_n(byte, __ATOMIC_RELAXED);
      while (!__atomic_compare_exchange_n(byte, &same, same, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      }
    }
    return true;
  }

  /// Called when that memory is freed: returns the private copies of pages secluded there.
  void forget(std::byte* begin, std::size_t bytes) const noexcept {
    const std::lock_guard lock{state_->mutex};
    const auto is_inside = [&](const window& s) { return begin <= s.begin && s.begin < begin + bytes; };
    if (core::erase_if(state_->secluded, is_inside) > 0) ::madvise(begin, whole_pages(bytes), MADV_DONTNEED);
  }

 private:
  static constexpr std::size_t least_pinned = std::size_t{256} << 20;  ///< bytes; fewer are not worth checking
  struct window {
    std::byte* begin;
    std::size_t length;
    std::uint64_t region = 0;
    std::weak_ptr<std::byte> memory{};
    ownership whose = ownership::alone;
    std::shared_ptr<std::byte> pinned{};  ///< because a peer referred to it
  };
  struct state {
    os::descriptor fd;
    std::shared_ptr<std::byte> first_page;
    segment_header* header = nullptr;
    std::mutex mutex;
    std::vector<window> windows;                         ///< all that is mapped in this process
    std::size_t pinned = 0, most_pinned = least_pinned;  ///< bytes; now, and before a search for freed ones
    std::vector<window> secluded{};                      ///< private pages, no longer those of the file
    std::atomic<int> lending{0};
  };

  std::shared_ptr<std::byte> find(const remote_ref& r) const {
    const std::lock_guard lock{state_->mutex};
    for (const window& w : state_->windows)
      if (w.region == r.region && w.length >= r.length)
        if (auto memory = w.memory.lock()) return memory;
    return {};
  }

  /// A freed region holds no data in the file.
  bool is_hole(const window& w) const {
    const auto next = ::lseek(fd(), static_cast<off_t>(w.region), SEEK_DATA);
    return next < 0 ? errno == ENXIO : std::uint64_t(next) >= w.region + w.length;
  }

  void open_header() {
    state_->first_page = map_pages(page_size(), MAP_SHARED, fd(), 0);
    state_->header = reinterpret_cast<segment_header*>(state_->first_page.get());
  }

  static os::descriptor in_memory() {
    constexpr unsigned not_executable = 8;  // MFD_NOEXEC_SEAL: newer kernels may require it, older ones reject it
    int fd = ::memfd_create("kolo", MFD_CLOEXEC | MFD_ALLOW_SEALING | not_executable);
    if (fd < 0 && errno == EINVAL) fd = ::memfd_create("kolo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0) {
      ::fchmod(fd, 0600);
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    }
    return os::descriptor{fd};
  }

  static os::descriptor in_dev_shm() {
    os::descriptor fd{::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
    if (!fd) os::throw_errno("no shared memory: neither memfd_create nor an unnamed file in /dev/shm is available");
    return fd;
  }

  /// Past `ulimit -f` the kernel would not only refuse to lengthen the file but send a signal.
  static void check_limit(std::uint64_t size) {
    struct rlimit limit;
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur) return;
    core::throw_error(errc::out_of_resources,
                      {"the shared segment needs ", size,
                       " bytes, with those of groups that have gone, and `ulimit -f` allows ", limit.rlim_cur});
  }

  /// Makes the file at least first + length bytes long. Both calls only ever lengthen it, so they need no lock, which a
  /// process could die with. Lazily: writes a zero at the end and returns its page.
  [[gnu::cold, gnu::noinline]] void grow(std::uint64_t first, std::uint64_t length, bool eager) const {
    const auto begin = static_cast<off_t>(first), size = static_cast<off_t>(length);
    int failed;
    do failed = eager ? ::posix_fallocate(fd(), begin, size) : ::pwrite(fd(), "", 1, begin + size - 1) == 1 ? 0 : errno;
    while (failed == EINTR);
    if (failed == 0) return eager ? void() : punch(first + length - page_size(), page_size());
    struct statvfs space;
    const bool known = ::fstatvfs(fd(), &space) == 0 && space.f_blocks > 0;
    constexpr const char* no_space = "; a container has what --shm-size says, and a smaller .slot_bytes needs less";
    const auto rest = known ? core::text_of({", and ", space.f_bavail * space.f_frsize, " are free: "}) : ": ";
    core::throw_error(errc::out_of_resources,
                      {"the shared segment needs ", length, " bytes more", rest,
                       std::generic_category().message(failed), failed == ENOSPC ? no_space : ""});
  }

  void punch(std::uint64_t first, std::uint64_t length) const noexcept {
    ::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                static_cast<off_t>(length));
  }

  std::shared_ptr<state> state_;
};

static_assert(Mapping<shared_mapping>);

}  // namespace kolo::inline KOLO_ABI::detail::shm
