// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The types of a call as names and numbers, for ranks to compare.
#pragma once

#include <kolo/config.hpp>
#include <kolo/view/view.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::execute {

/// A type's name, as the compiler writes it.
template <class T>
constexpr auto type_name() {
  const std::string_view text = __PRETTY_FUNCTION__;  // ... [with T = float], or ... [T = float]
  const auto begin = text.find("T = ") + 4;
  return text.substr(begin, text.rfind(']') - begin);
}

/// Names a type in the same way in every process that was built by the same compiler.
template <class T>
constexpr std::uint32_t type_hash() {
  std::uint32_t h = 2166136261u;
  for (const char* c = __PRETTY_FUNCTION__; *c; ++c) h = (h ^ static_cast<unsigned char>(*c)) * 16777619u;
  return h;
}

/// The type of a missing operator or view.
struct none {};

/// A type of a call: its name, as the compiler writes it, and a number.
struct named_type {
  std::string_view name{};
  std::uint32_t hash = 0;
};
template <class T>
constexpr named_type named() {
  return {type_name<T>(), type_hash<T>()};
}

/// The types of a call, erased; a name is empty if the collective has no such thing. `Algorithm`: as the caller named
/// it.
struct call_types {
  named_type element{}, op{}, algorithm{};
};
template <class In, class Op, class Algorithm>
constexpr call_types types_of_call() {
  call_types t{.algorithm = named<Algorithm>()};
  if constexpr (View<In>) t.element = named<view_element_t<In>>();
  if constexpr (!std::same_as<Op, none>) t.op = named<Op>();
  return t;
}
template <class In, class Op, class Algorithm>
inline constexpr call_types types_of = types_of_call<In, Op, Algorithm>();

}  // namespace kolo::inline KOLO_ABI::detail::execute
