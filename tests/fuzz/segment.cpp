// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes a shared segment that another process sent: its header, and references into it.
#include <kolo/shm/lending.hpp>
#include <kolo/shm/shared_mapping.hpp>

#include <cstring>

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  std::uint64_t numbers[4] = {};  // region, length, offset and, of the file, pages
  std::memcpy(numbers, data, std::min(size, sizeof numbers));
  const auto rest = std::min(size, sizeof numbers);
  fuzz::expect(fd >= 0 && ::write(fd, data + rest, size - rest) == static_cast<ssize_t>(size - rest));
  const auto pages = numbers[3] % 8;
  fuzz::expect(::ftruncate(fd, static_cast<off_t>(pages * kolo::detail::shm::page_size())) == 0);
  try {
    kolo::detail::shm::shared_mapping memory{kolo::detail::os::descriptor{fd}};
    kolo::detail::shm::lent_region lent;
    const volatile std::byte* const there = lent.resolve(memory, {numbers[0], numbers[1], numbers[2]}, 1);
    fuzz::expect(numbers[1] <= pages * kolo::detail::shm::page_size());
    (void)*there;
    (void)memory.reserve(numbers[1] % (1 << 20));
  } catch (const kolo::error&) {
  }
  return 0;
}
