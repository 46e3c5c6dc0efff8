// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call that was drawn: its text, how to run it, and the check of its result.
#pragma once

#include <kolo/schedule/catalogue.hpp>

#include <functional>
#include <string>

#include "soak/tensor.hpp"

namespace soak {

template <class C>
struct task {
  std::string text{};
  std::function<void()> run{};
  std::function<kolo::request<typename C::transport_type>()> start{};
  std::function<std::string()> check = [] { return std::string{}; };  ///< empty: correct
  bool repeatable = true;                                             ///< the input is unchanged afterwards
  std::uint64_t digest = 0;  ///< of the elements that must have the same bits on every rank, after `check`
};

/// Named algorithms cost compilation, and the code that runs them over processes is that of threads.
template <class C>
inline constexpr bool names_algorithms = !std::is_same_v<typename C::transport_type, kolo::shm::transport>;

/// f(name, algorithm) with one algorithm of the library that can do K on p ranks, or with automatic choice.
template <kolo::kind K, class C, class F>
void with_algorithm(dice& d, const C& comm, F f) {
  const auto which = d.draw();
  std::uint64_t possible = 0;
  if constexpr (names_algorithms<C>) {
    const auto each = [&](auto see) {
      kolo::for_each_family([&](const char* name, const auto& family) {
        using A = std::remove_cvref_t<decltype(family)>;
        if constexpr (kolo::AlgorithmFor<A, K>)
          if (kolo::supports(kolo::schedule_of<K>(family), comm.size())) see(name, family);
      });
    };
    each([&](const char*, const auto&) { ++possible; });
    auto chosen = which % (2 * possible + 1);  // about half of all calls are automatic
    if (chosen < possible)
      return each([&](const char* name, const auto& family) {
        if (chosen-- == 0) f(name, family);
      });
  }
  f("automatic", kolo::automatic{});
}

template <class T>
void add_to_digest(std::uint64_t& digest, tensor<T>& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x[i], sizeof(T));
    digest = (digest ^ bits) * 1099511628211u;  // FNV-1a, by elements
  }
}

template <class T>
bool near(const T& got, const T& wanted, int p) {
  if constexpr (std::is_same_v<T, float>) return std::abs(got - wanted) <= static_cast<float>(p * p) * 1e-7f;
  else return std::memcmp(&got, &wanted, sizeof(T)) == 0;
}

/// Compares with wanted(i), and checks that nothing beside the elements was written.
template <class T, class F>
std::string compared(tensor<T>& got, int p, F wanted) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!near(got[i], wanted(i), p)) return "element " + std::to_string(i) + " is wrong";
  return got.is_tidy() ? "" : "memory beside the elements was written";
}

/// Lengths: mostly short, some of several pieces, few long.
inline std::size_t some_length(dice& d) {
  const auto which = d.below(20);
  if (which == 0) return 0;
  if (which < 8) return d.below<std::size_t>(20);
  if (which < 17) return d.below<std::size_t>(3000);
  return which < 19 ? d.below<std::size_t>(40'000) : d.below<std::size_t>(150'000);
}

}  // namespace soak
