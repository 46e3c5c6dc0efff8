// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A reference to a callable, whatever its type.
#pragma once

#include <type_traits>

namespace testing {

/// Refers to a callable, for the length of a call. What takes one is compiled once, and not for each lambda.
template <class... Args>
class callable_ref {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, callable_ref>)
  callable_ref(F&& f)
      : f_{const_cast<void*>(static_cast<const void*>(&f))}, call_{[](void* g, Args... args) {
          (*static_cast<std::remove_reference_t<F>*>(g))(args...);
        }} {}
  void operator()(Args... args) const { call_(f_, args...); }

 private:
  void* f_;
  void (*call_)(void* f, Args... args);
};

}  // namespace testing
