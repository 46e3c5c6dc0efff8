// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Permutations in one round: each rank's vector goes to one rank, at a fixed distance or chosen by a function.
#pragma once

#include <kolo/schedule/expressions.hpp>
#include <kolo/schedule/schedule.hpp>

#include <concepts>
#include <memory>
#include <type_traits>

namespace kolo::inline KOLO_ABI {

namespace detail::schedule {
/// Rank r sends its block to one rank and receives one from another; if both are r, it copies its own.
constexpr step permuting_step(int to, int from) {
  return transfer{.to = to, .send = {0, 1}, .from = from, .receive = {1, 1}};
}
}  // namespace detail::schedule

/// Before  set 0: rank r has one block.
/// After   set 1: rank r has the block of rank r - distance, circularly.
/// Cost    1 round of 1 message, n bytes; none where p divides the distance.
/// Order   nothing is combined.
/// Errors  none of its own.
/// Source  folklore; MPI_Sendrecv with the neighbours of MPI_Cart_shift.
struct shifted_by {
  int distance = 1;
  static constexpr auto collective = kind::permutation;
  static constexpr bool relative = true;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  constexpr int key() const { return distance; }
  constexpr int source(int r, int p) const { return mod(r - distance % p, p); }
  constexpr step at(int r, int p, int) const {
    return detail::schedule::permuting_step(mod(r + distance % p, p), mod(r - distance % p, p));
  }
};

/// `shifted_by` with a distance known at compile time: a type, so that it can be proven there.
template <int Distance>
struct shifted {
  static constexpr auto collective = kind::permutation;
  static constexpr bool relative = true;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  static constexpr int source(int r, int p) { return shifted_by{Distance}.source(r, p); }
  static constexpr step at(int r, int p, int k) { return shifted_by{Distance}.at(r, p, k); }
};

/// A pure function of rank and size: the rank that the vector of that rank goes to. It must return the same value on
/// every rank and in every call.
template <class F>
concept RankMap = std::copy_constructible<F> && std::is_invocable_r_v<int, const F&, int, int>;

/// Before  set 0: rank r has one block.
/// After   set 1: rank map(r, p) has it.
/// Cost    1 round of 1 message, n bytes; none for a rank that the map leaves where it is. `at` calls the map up to p
///         times.
/// Order   nothing is combined.
/// Errors  none of its own; it supports the sizes for which the map is a permutation.
/// Source  folklore.
template <RankMap Map>
struct permuted {
  [[no_unique_address]] Map map;
  constexpr explicit permuted(const Map& m = Map{}) : map{m} {}
  constexpr permuted(const permuted&) = default;
  constexpr permuted& operator=(const permuted& other) {  // a lambda with captures has no assignment
    if (this != &other) std::destroy_at(&map), std::construct_at(&map, other.map);
    return *this;
  }
  constexpr ~permuted() = default;

  static constexpr auto collective = kind::permutation;
  static constexpr int blocks(int) { return 1; }
  static constexpr int rounds(int) { return 1; }
  constexpr bool supports(int p) const {
    detail::schedule::row<bool> is_met{p, false};
    for (int r = 0; r < p; ++r) {
      const int to = map(r, p);
      if (to < 0 || to >= p || is_met[to]) return false;
      is_met[to] = true;
    }
    return true;
  }
  constexpr int source(int r, int p) const {
    int s = 0;
    while (s < p - 1 && map(s, p) != r) ++s;
    return s;
  }
  constexpr step at(int r, int p, int) const { return detail::schedule::permuting_step(map(r, p), source(r, p)); }
};
template <class Map>
permuted(Map) -> permuted<Map>;

}  // namespace kolo::inline KOLO_ABI
