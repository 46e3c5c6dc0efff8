// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Storage for a value that does not exist yet.
#pragma once

#include <kolo/config.hpp>

#include <new>

namespace kolo::inline KOLO_ABI::detail::core {

/// For a trivially copyable T, which need not have a default constructor or an assignment; memcpy or `put` starts the
/// value's lifetime.
template <class T>
union uninitialized {
  KOLO_HOST_DEVICE uninitialized() {}
  KOLO_HOST_DEVICE void put(const T& x) { ::new (static_cast<void*>(&value)) T(x); }
  T value;
};

}  // namespace kolo::inline KOLO_ABI::detail::core
