// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Room for a value that is not there yet.
#pragma once

#include <kolo/config.hpp>

#include <new>

namespace kolo::inline KOLO_ABI::detail::core {

/// Of a trivially copyable T, which need not have a default constructor, or an assignment; memcpy begins the life of
/// what is in it, or `put`.
template <class T>
union uninitialized {
  KOLO_HOST_DEVICE uninitialized() {}
  KOLO_HOST_DEVICE void put(const T& x) { ::new (static_cast<void*>(&value)) T(x); }
  T value;
};

}  // namespace kolo::inline KOLO_ABI::detail::core
