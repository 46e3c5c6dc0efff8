// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the code of the ranks calls: for its memory accesses, as the compiler does for the thread sanitizer, and of the system.
#include "explore/search.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <new>
#include <type_traits>

namespace explore {

verdict explore(scenario& s, std::size_t most_states) { return the().explore(s, most_states); }
std::byte* take(std::size_t bytes, std::size_t alignment) { return the().take(bytes, alignment); }
void require(bool holds, const char* otherwise) {
  if (!holds) the().violate(otherwise);
}
void destroy(void* p, std::size_t bytes) { the().touch(p, bytes, true); }
void pause() {
  if (search::is_rank()) the().perform({.what = act::pause});
}

namespace {
std::array<const volatile void*, most_ranks> private_ones{};  // at the same addresses in each run

/// Accesses that are not explored are done at once: there is only one thread.
template <class T>
bool is_explored(const volatile T* p) {
  return search::is_rank() && in_zone(p) &&
         std::find(private_ones.begin(), private_ones.end(), p) == private_ones.end();
}
template <class T>
T atomically(act what, const volatile T* p, int how, T operand = 0, T expected = 0, int otherwise = 0) {
  return static_cast<T>(
      the().perform({what, reinterpret_cast<std::uintptr_t>(p), sizeof(T), static_cast<order>(how & 7),
                     static_cast<order>(otherwise & 7), static_cast<std::make_unsigned_t<T>>(operand),
                     static_cast<std::make_unsigned_t<T>>(expected)}));
}
template <class T>
bool compare(volatile T* p, T* expected, T desired, int how, int otherwise) {
  const T found = is_explored(p) ? atomically(act::compare, p, how, desired, *expected, otherwise) : *p;
  const bool same = found == *expected;
  if (same && !is_explored(p)) *p = desired;
  *expected = found;
  return same;
}

/// The number of cores that ranks see, so that they do not spin for long.
constexpr long cores = 1;

}  // namespace

void keep_private(int rank, const volatile void* p) { private_ones[static_cast<std::size_t>(rank)] = p; }

}  // namespace explore

#define EXPLORE_PLAIN(name, bytes)                                                     \
  void __tsan_read##name(void* p) { explore::the().touch(p, bytes, false); }           \
  void __tsan_write##name(void* p) { explore::the().touch(p, bytes, true); }           \
  void __tsan_unaligned_read##name(void* p) { explore::the().touch(p, bytes, false); } \
  void __tsan_unaligned_write##name(void* p) { explore::the().touch(p, bytes, true); }
#define EXPLORE_ATOMIC(bits, T)                                                                \
  T __tsan_atomic##bits##_load(const volatile T* p, int o) {                                   \
    return explore::is_explored(p) ? explore::atomically(explore::act::load, p, o) : *p;       \
  }                                                                                            \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int o) {                                \
    if (explore::is_explored(p)) explore::atomically(explore::act::store, p, o, v);            \
    else *p = v;                                                                               \
  }                                                                                            \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int o) {                                \
    if (explore::is_explored(p)) return explore::atomically(explore::act::exchange, p, o, v);  \
    const T before = *p;                                                                       \
    return *p = v, before;                                                                     \
  }                                                                                            \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int o) {                               \
    if (explore::is_explored(p)) return explore::atomically(explore::act::add, p, o, v);       \
    const T before = *p;                                                                       \
    return *p = static_cast<T>(before + v), before;                                            \
  }                                                                                            \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int o) {                               \
    return __tsan_atomic##bits##_fetch_add(p, static_cast<T>(-v), o);                          \
  }                                                                                            \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int o, int f) { \
    return explore::compare(p, e, v, o, f);                                                    \
  }                                                                                            \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int o, int f) {   \
    return explore::compare(p, e, v, o, f);                                                    \
  }                                                                                            \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T e, T v, int o, int f) {        \
    return explore::compare(p, &e, v, o, f), e;                                                \
  }

extern "C" {

// Memory.

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** p, void*) { explore::the().touch(p, sizeof *p, true); }
void __tsan_vptr_read(void** p) { explore::the().touch(p, sizeof *p, false); }
void __tsan_read_range(void* p, unsigned long n) { explore::the().touch(p, n, false); }
void __tsan_write_range(void* p, unsigned long n) { explore::the().touch(p, n, true); }
EXPLORE_PLAIN(1, 1)
EXPLORE_PLAIN(2, 2)
EXPLORE_PLAIN(4, 4)
EXPLORE_PLAIN(8, 8)
EXPLORE_PLAIN(16, 16)
EXPLORE_ATOMIC(8, char)
EXPLORE_ATOMIC(32, int)
EXPLORE_ATOMIC(64, long)
void __tsan_atomic_thread_fence(int o) {
  if (explore::search::is_rank())
    explore::the().perform({.what = explore::act::fence, .how = static_cast<explore::order>(o & 7)});
}

void* memcpy(void* to, const void* from, std::size_t n) noexcept {
  explore::the().touch(from, n, false);
  explore::the().touch(to, n, true);
  return memmove(to, from, n);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t n) { return memcpy(to, from, n); }
void* __tsan_memmove(void* to, const void* from, std::size_t n) { return memcpy(to, from, n); }
void* __tsan_memset(void* to, int c, std::size_t n) {
  explore::the().touch(to, n, true);
  return memset(to, c, n);
}

// The system: a futex, a membarrier, a clock, the cores, and no /proc.

long syscall(long what, ...) noexcept {
  va_list rest;
  va_start(rest, what);
  if (what == SYS_membarrier) {
    const int command = va_arg(rest, int);
    va_end(rest);
    if (command == MEMBARRIER_CMD_GLOBAL_EXPEDITED) explore::the().perform({.what = explore::act::fence_all});
    return 0;
  }
  auto* const word = va_arg(rest, std::uint32_t*);
  const int operation = va_arg(rest, int);
  const auto value = va_arg(rest, std::uint32_t);
  va_end(rest);
  if (what != SYS_futex || !explore::is_explored(word)) return errno = ENOSYS, -1;
  explore::atomically(operation == FUTEX_WAIT ? explore::act::sleep : explore::act::wake, reinterpret_cast<int*>(word),
                      0, static_cast<int>(value));
  return 0;
}
void __tsan_atomic_signal_fence(int) {}
int sched_yield() noexcept { return explore::pause(), 0; }
int sched_getaffinity(pid_t, std::size_t, cpu_set_t*) noexcept { return errno = ENOSYS, -1; }
long sysconf(int what) noexcept { return what == _SC_NPROCESSORS_ONLN ? explore::cores : 4096; }
int clock_gettime(clockid_t, timespec* now) noexcept {
  const auto t = 1'000'000'000 + explore::the().time();
  return *now = {t / 1'000'000'000, t % 1'000'000'000}, 0;
}
int open(const char*, int, ...) { return errno = EACCES, -1; }

}  // extern "C"

// A rank's memory: explored like all of the zone, and written to when it is freed, so that a later access is a race.

[[gnu::noinline]] void* operator new(std::size_t n) {
  if (!explore::search::is_rank()) return std::malloc(n);
  auto* const p = explore::the().take(n + 16, 16);
  return *reinterpret_cast<std::size_t*>(p) = n, p + 16;
}
[[gnu::noinline]] void* operator new(std::size_t n, std::align_val_t a) {
  const auto alignment = static_cast<std::size_t>(a);
  if (!explore::search::is_rank()) return std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
  auto* const p = explore::the().take(n + alignment, alignment) + alignment;
  return *reinterpret_cast<std::size_t*>(p - 16) = n, p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  if (!explore::in_zone(p)) return std::free(p);
  explore::the().touch(p, *reinterpret_cast<std::size_t*>(static_cast<std::byte*>(p) - 16), true);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { operator delete(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { operator delete(p); }
