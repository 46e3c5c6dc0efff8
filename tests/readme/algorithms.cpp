// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints for every schedule of the catalogue what the table needs: family, collective, sizes, order; one line each, separated by tabs.
#include <kolo/schedule/catalogue.hpp>
#include <kolo/schedule/semantics.hpp>

#include <cstdio>
#include <string>

namespace {

constexpr int most = 64;

template <class S, class F>
bool supports_exactly(const S& s, F wanted) {
  for (int p = 2; p <= most; ++p)
    if (kolo::supports(s, p) != wanted(p)) return false;
  return true;
}

/// The numbers of ranks that it supports, in words.
template <class S>
std::string sizes(const S& s) {
  if (supports_exactly(s, [](int) { return true; })) return "any";
  if (supports_exactly(s, [](int p) { return p % 2 == 0; })) return "even";
  if (supports_exactly(s, [](int p) { return p == kolo::floor_power_of_two(p); })) return "powers of two";
  for (int m = 3; m <= most; ++m)
    if (supports_exactly(s, [=](int p) { return p % m == 0; })) return "multiples of " + std::to_string(m);
  std::string list;
  for (int p = 2; p <= most; ++p)
    if (kolo::supports(s, p)) list += std::to_string(p) + ' ';
  return list + "...";
}

template <class S>
const char* order() {
  if (!kolo::detail::schedule::reduces(S::collective)) return "";
  return kolo::is_ordered<S>() ? "kept" : "any";
}

}  // namespace

int main() {
  kolo::for_each_family([](const char* name, const auto& family) {
    kolo::for_each_schedule_of(family, [&]<class S>(const S& s) {
      std::printf("%s\t%s\t%s\t%s\n", name, kolo::name(S::collective), sizes(s).c_str(), order<S>());
    });
  });
}
