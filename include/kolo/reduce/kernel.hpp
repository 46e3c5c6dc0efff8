// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The border between typed operators and the executor, which knows bytes only: one kernel per element type and operator.
#pragma once

#include <cstddef>
#include <cstring>

namespace kolo::inline v0 {

struct source {
  const std::byte* data;
  bool on_wire;
};

struct kernel {
  std::size_t element_bytes = 1, wire_bytes = 1;
  const void* op = nullptr;
  void (*combine)(const void* op, std::byte* dst, const source* sources, int n, std::size_t count, int finish_size) = nullptr;
  void (*to_wire)(std::byte* wire, const std::byte* from, std::byte* rounded, std::size_t count) = nullptr;
  void (*from_wire)(std::byte* dst, const std::byte* wire, std::size_t count) = nullptr;
  bool finishes = false;
};

template <class T>
kernel copy_kernel() { return {.element_bytes = sizeof(T), .wire_bytes = sizeof(T)}; }

template <class T, class Op>
kernel make_kernel(const Op& op) {   // a first version: everything through one scalar loop
  return {.element_bytes = sizeof(T), .wire_bytes = sizeof(T), .op = &op,
          .combine = [](const void* untyped, std::byte* dst, const source* sources, int n, std::size_t count, int finish_size) {
            const Op& combine = *static_cast<const Op*>(untyped);
            for (std::size_t i = 0; i < count; ++i) {
              T a{}, b{};
              std::memcpy(&a, sources[0].data + i * sizeof(T), sizeof(T));
              for (int k = 1; k < n; ++k) {
                std::memcpy(&b, sources[k].data + i * sizeof(T), sizeof(T));
                a = combine(a, b);
              }
              if constexpr (requires { combine.finish(a, 1); }) if (finish_size > 0) a = combine.finish(a, finish_size);
              std::memcpy(dst + i * sizeof(T), &a, sizeof(T));
            }
          },
          .finishes = requires(T a) { op.finish(a, 1); }};
}

}  // namespace kolo::inline v0
