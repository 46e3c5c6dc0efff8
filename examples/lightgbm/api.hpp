// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What this example calls of LightGBM's C interface, from the library of Python's wheel, which comes without a header.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace lightgbm {

using handle = void*;

/// The library, once it is loaded; each call throws what LightGBM says of its failure.
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
    throw std::runtime_error{std::string{"the library has no "} + name};
  }

  void* library_;
};

}  // namespace lightgbm
