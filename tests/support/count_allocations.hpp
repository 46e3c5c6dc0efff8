// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the allocations of a thread, by replacing the operators new and delete: for one source file of a program.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local long allocations = 0;
thread_local long fails = 0;  // the number of the allocation that fails
[[gnu::noinline]] void* try_to_allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (++allocations == fails) return nullptr;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* allocate(std::size_t bytes, std::size_t alignment) {
  if (void* p = try_to_allocate(bytes, alignment)) return p;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void give_back(void* p) noexcept { std::free(p); }
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t a) { return allocate(bytes, static_cast<std::size_t>(a)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return try_to_allocate(bytes, alignof(std::max_align_t));
}
void operator delete(void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
