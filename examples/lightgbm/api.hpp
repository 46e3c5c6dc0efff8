// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of LightGBM's C interface that this example calls, loaded from the library of the Python wheel, which has no header.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace lightgbm {

using handle = void*;

/// The loaded library; a call that fails throws with LGBM_GetLastError().
class api {
 public:
  explicit api(const char* path) : library_{::dlopen(path, RTLD_NOW | RTLD_LOCAL)} {
    if (!library_) throw std::runtime_error{::dlerror()};
  }

  template <class... Args>
  void operator()(const char* name, Args... args) const {
    const auto call = reinterpret_cast<int (*)(Args...)>(symbol(name));
    if (call(args...) != 0)
      throw std::runtime_error{reinterpret_cast<const char* (*)()>(symbol("LGBM_GetLastError"))()};
  }

 private:
  void* symbol(const char* name) const {
    if (void* const found = ::dlsym(library_, name)) return found;
    throw std::runtime_error{std::string{"the library has no function "} + name};
  }

  void* library_;
};

}  // namespace lightgbm
