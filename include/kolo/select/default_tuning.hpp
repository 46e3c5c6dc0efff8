// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measured tables for the automatic choice; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/schedule/cost_model.hpp>

namespace kolo::inline KOLO_ABI::default_tuning {

/// Processes, and threads, on one host of two cores, near each other and far: more than two ranks share cores.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 1.36e-07,
     .duplex = 2.89e-07, .bytes = {2.83e-11, 0, 1.99e-11, 5.15e-11, 5.44e-11, 6.35e-11},
     .shared = {1.41e-10, 1.33e-10, 1.61e-10, 8.21e-11, 1.28e-10, 1.37e-10},
     .combined = {0, 0, 0, 0, 9.7e-12, 1.88e-11}},
    {.ranks = 2, .runs_as = pattern::one_way,
     .message = 1.26e-07, .bytes = {4.78e-11, 1.22e-10, 1.01e-10, 6.8e-11, 6.79e-11, 1.48e-10},
     .shared = {0, 3.71e-11, 2.67e-11, 1.01e-11, 1e-11, 5.01e-11},
     .combined = {0, 1.03e-11, 3.08e-12, 0, 5.66e-12, 5.66e-12}},
    {.ranks = 2, .runs_as = pattern::exchange,
     .message = 1.19e-07, .bytes = {0, 3.22e-11, 3.21e-11, 2.79e-11, 5.9e-11, 1.21e-10},
     .shared = {0, 3.05e-11, 2.88e-11, 2.33e-11, 5.39e-11, 1.16e-10},
     .combined = {3.96e-11, 0, 0, 0, 0, 0}},
    {.ranks = 2, .runs_as = pattern::there_and_back,
     .message = 2.04e-07, .bytes = {3.84e-11, 4.02e-11, 4.21e-11, 4.14e-11, 4.75e-11, 7.65e-11},
     .shared = {0, 8.52e-13, 1.77e-12, 0, 6.11e-12, 3.52e-11},
     .combined = {0, 4.26e-13, 8.83e-13, 0, 3.05e-12, 1.76e-11}},
    {.ranks = 4, .runs_as = pattern::rounds, .hop = 9.89e-07,
     .duplex = 1.16e-06, .message = 1.38e-07, .bytes = {4.32e-12, 5.23e-11, 7.68e-11, 4.85e-11, 6.77e-11, 6.77e-11},
     .shared = {1.68e-10, 1.68e-10, 1.03e-10, 9.57e-11, 1.6e-10, 1.6e-10},
     .combined = {1.33e-11, 2.88e-11, 2.13e-12, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::one_way,
     .message = 3.74e-07, .bytes = {4.71e-11, 7.39e-11, 7.38e-11, 6.38e-11, 7.96e-11, 7.96e-11},
     .shared = {0, 6.71e-12, 6.68e-12, 4.19e-12, 8.14e-12, 8.14e-12},
     .combined = {0, 2.47e-11, 4.09e-11, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::exchange,
     .message = 9.98e-07, .bytes = {8.89e-11, 7.95e-11, 8.51e-11, 9.27e-11, 1.33e-10, 1.33e-10},
     .shared = {9.42e-12, 0, 5.63e-12, 1.32e-11, 5.35e-11, 5.35e-11},
     .combined = {1.8e-11, 0, 0, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::there_and_back,
     .message = 1.15e-06, .bytes = {5.94e-11, 6.08e-11, 7.2e-11, 7.73e-11, 1.06e-10, 1.06e-10},
     .shared = {0, 1.4e-12, 1.26e-11, 1.79e-11, 4.7e-11, 4.7e-11},
     .combined = {0, 6.98e-13, 6.3e-12, 8.95e-12, 2.35e-11, 2.35e-11}},
    {.ranks = 8, .runs_as = pattern::rounds, .hop = 1.27e-06,
     .duplex = 2.71e-06, .message = 3.95e-07, .bytes = {0, 0, 1.84e-11, 2.6e-11, 2.51e-11, 5.02e-11},
     .shared = {2.34e-10, 2.15e-10, 1.5e-10, 1.31e-10, 2.56e-10, 2.62e-10},
     .combined = {0, 0, 0, 8.27e-12, 0, 0}},
    {.ranks = 8, .runs_as = pattern::one_way,
     .message = 2.88e-07, .bytes = {1.48e-11, 3.06e-11, 1.7e-11, 2.46e-11, 4.08e-11, 9.55e-11},
     .shared = {8.67e-12, 1.07e-11, 8.95e-12, 9.9e-12, 1.19e-11, 1.88e-11},
     .combined = {0, 0, 0, 0, 0, 0}},
    {.ranks = 8, .runs_as = pattern::exchange,
     .message = 9.86e-07, .bytes = {7.34e-11, 6.38e-11, 8.76e-11, 9.08e-11, 1.33e-10, 1.33e-10},
     .shared = {9.6e-12, 0, 2.38e-11, 2.7e-11, 6.95e-11, 6.95e-11},
     .combined = {1.56e-11, 0, 0, 0, 0, 0}},
    {.ranks = 8, .runs_as = pattern::there_and_back,
     .message = 1.32e-06, .bytes = {7.06e-11, 6.87e-11, 8.19e-11, 1.04e-10, 1.42e-10, 1.42e-10},
     .shared = {1.9e-12, 0, 1.32e-11, 3.57e-11, 7.36e-11, 7.36e-11},
     .combined = {9.52e-13, 0, 6.61e-12, 1.78e-11, 3.68e-11, 3.68e-11}},
    {.ranks = 16, .runs_as = pattern::rounds, .round = 2.11e-06, .hop = 2.93e-06,
     .duplex = 6.68e-06, .message = 9.1e-07, .bytes = {9.54e-11, 9.36e-11, 4.93e-11, 4.33e-11, 1.51e-10, 1.54e-10},
     .shared = {4.57e-10, 4.47e-10, 3.99e-10, 4.29e-10, 5.49e-10, 5.53e-10},
     .combined = {0, 0, 0, 1.15e-11, 3.19e-11, 3.19e-11}},
    {.ranks = 16, .runs_as = pattern::one_way,
     .message = 3.51e-07, .bytes = {9.89e-11, 4.6e-11, 3.94e-11, 3.55e-11, 3.93e-11, 3.93e-11},
     .shared = {6.19e-12, 2.88e-12, 2.47e-12, 2.23e-12, 2.46e-12, 2.46e-12},
     .combined = {0, 0, 0, 1.05e-11, 6.48e-12, 6.48e-12}},
    {.ranks = 16, .runs_as = pattern::exchange,
     .message = 1.48e-06, .bytes = {1.8e-10, 1.71e-10, 1.89e-10, 2.19e-10, 2.9e-10, 3.15e-10},
     .shared = {1.71e-11, 8.02e-12, 2.61e-11, 5.63e-11, 1.27e-10, 1.52e-10},
     .combined = {9.88e-12, 0, 0, 2e-11, 0, 0}},
    {.ranks = 16, .runs_as = pattern::there_and_back,
     .message = 2e-06, .bytes = {2.12e-10, 2.12e-10, 2.13e-10, 2.48e-10, 2.7e-10, 2.7e-10},
     .shared = {1.75e-10, 1.75e-10, 1.76e-10, 2.11e-10, 2.33e-10, 2.33e-10},
     .combined = {8.11e-11, 8.1e-11, 8.16e-11, 9.9e-11, 1.1e-10, 1.1e-10}},
}}, .copied = {5.81e-11, 5.81e-11, 3.8e-11, 3.58e-11, 4.91e-11, 1.36e-10}, .noticed = 4.01e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for message transports without a table of their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06,
     .message = 1e-06, .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10},
     .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline KOLO_ABI::default_tuning
