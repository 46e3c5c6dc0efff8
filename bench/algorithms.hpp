// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithms that are compared: one line each. Add yours to the list of its collective; the report uses its name.
#pragma once

#include <kolo/kolo.hpp>

#include <tuple>

namespace kolo_bench {

/// A name, and its schedule, family of schedules, or kolo::automatic.
template <class A>
struct entry {
  const char* name;
  A algorithm;
};
template <class A>
entry(const char*, A) -> entry<A>;

inline constexpr std::tuple allreduce_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"ring", kolo::ring{}},
    entry{"recursive_doubling", kolo::recursive_doubling{}},
    entry{"circulant", kolo::circulant{}},
    entry{"one_shot", kolo::one_shot{}},
    entry{"two_shot", kolo::two_shot{}},
    entry{"rabenseifner", kolo::rabenseifner{}},
    entry{"recursive_multiplying", kolo::recursive_multiplying{}},
    entry{"double_tree", kolo::double_tree{}},
    entry{"swing", kolo::swing{}},
    entry{"two_level", kolo::two_level<>{}},
};

inline constexpr std::tuple broadcast_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"binomial", kolo::binomial{}},
    entry{"one_shot", kolo::one_shot{}},
    entry{"two_shot", kolo::two_shot{}},
    entry{"van_de_geijn", kolo::van_de_geijn{}},
    entry{"chain", kolo::chain{}},
    entry{"chain of 4", kolo::chain{.segments = 4}},
    entry{"double_tree", kolo::double_tree{}},
    entry{"circulant_pipelined", kolo::circulant_pipelined{}},
};

inline constexpr std::tuple allgather_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"ring", kolo::ring{}},
    entry{"recursive_doubling", kolo::recursive_doubling{}},
    entry{"circulant", kolo::circulant{}},
    entry{"one_shot", kolo::one_shot{}},
    entry{"bruck", kolo::bruck{}},
    entry{"neighbour_exchange", kolo::neighbour_exchange{}},
};

inline constexpr std::tuple reduce_scatter_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"ring", kolo::ring{}},
    entry{"circulant", kolo::circulant{}},
    entry{"one_shot", kolo::one_shot{}},
    entry{"recursive_halving", kolo::recursive_halving{}},
    entry{"pairwise", kolo::pairwise{}},
};

inline constexpr std::tuple reduce_algorithms{
    entry{"automatic", kolo::automatic{}},     entry{"binomial", kolo::binomial{}},
    entry{"circulant", kolo::circulant{}},     entry{"one_shot", kolo::one_shot{}},
    entry{"two_shot", kolo::two_shot{}},       entry{"chain", kolo::chain{}},
    entry{"double_tree", kolo::double_tree{}}, entry{"circulant_pipelined", kolo::circulant_pipelined{}},
};

inline constexpr std::tuple gather_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"binomial", kolo::binomial{}},
    entry{"one_shot", kolo::one_shot{}},
};

inline constexpr std::tuple scatter_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"binomial", kolo::binomial{}},
    entry{"one_shot", kolo::one_shot{}},
};

inline constexpr std::tuple alltoall_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"one_shot", kolo::one_shot{}},
    entry{"pairwise", kolo::pairwise{}},
    entry{"bruck", kolo::bruck{}},
};

inline constexpr std::tuple scan_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"chain of 1", kolo::chain{.segments = 1}},
    entry{"chain of 4", kolo::chain{.segments = 4}},
    entry{"chain", kolo::chain{}},
    entry{"recursive_doubling", kolo::recursive_doubling{}},
};

inline constexpr std::tuple barrier_algorithms{
    entry{"automatic", kolo::automatic{}},
    entry{"dissemination", kolo::dissemination{}},
    entry{"one_shot", kolo::one_shot{}},
};

}  // namespace kolo_bench
