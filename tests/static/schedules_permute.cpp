// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Permutations in one round are proven at compile time, and wrong ones are found.
#include <kolo/schedule/permuted.hpp>
#include <kolo/schedule/verify.hpp>

using namespace kolo;

static_assert(is_permutation_schedule<shifted<1>, 2, 16>);
static_assert(is_permutation_schedule<shifted<-1>>);
static_assert(is_permutation_schedule<shifted<5>>);
static_assert(is_permutation_schedule<shifted<0>>);
static_assert(verify(shifted_by{-7}, 12));

constexpr auto reversed = [](int rank, int size) { return size - 1 - rank; };
static_assert(is_permutation_schedule<permuted<std::remove_const_t<decltype(reversed)>>>);
static_assert(verify(permuted{[](int r, int p) { return (r + 3) % p; }}, 7));
static_assert(!supports(permuted{[](int, int) { return 0; }}, 2) &&
              !supports(permuted{[](int r, int) { return r + 1; }}, 2));

/// All ranks receive the block of rank 0: each message is received, but this is no permutation.
struct spread {
  static constexpr auto collective = kind::permutation;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int r, int p, int) {
    if (r > 0) return transfer{.from = 0, .receive = {1, 1}};
    step s = transfer{.to = {1, p - 1}, .send = {0, 1}};
    s += {.to = 0, .send = {0, 1}, .from = 0, .receive = {1, 1}};
    return s;
  }
};
static_assert(verify(spread{}, 3).what == fault::counted_twice);

/// Shifts by 2, and declares 1.
struct further : shifted<2> {
  static constexpr int source(int r, int p) { return mod(r - 1, p); }
};
static_assert(verify(further{}, 4).what == fault::not_promised);

/// Receives nothing.
struct nothing {
  static constexpr auto collective = kind::permutation;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr step at(int, int, int) { return {}; }
};
static_assert(verify(nothing{}, 2).what == fault::missing);
