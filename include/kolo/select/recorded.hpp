// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/schedule/cost_model.hpp>

namespace kolo::inline KOLO_ABI::recorded {

/// Processes, and threads, on one host of two cores, near each other and far: with more ranks than two they take turns.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 9.28e-08, .hop = 0, .turn = 4.34e-07, .message = 1.07e-07,
     .bytes = {0, 0, 3.08e-11, 0, 6.96e-12, 2.17e-11},
     .shared = {9.87e-11, 1.43e-10, 1.84e-10, 1.58e-10, 2.15e-10, 2.29e-10},
     .combined = {4.09e-10, 3.42e-10, 2.01e-10, 0, 4.01e-11, 5.48e-11}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 1.43e-07,
     .bytes = {2.38e-11, 1.02e-10, 1.02e-10, 6.87e-11, 7.39e-11, 1.46e-10},
     .shared = {0, 3.9e-11, 3.92e-11, 2.25e-11, 2.51e-11, 6.09e-11},
     .combined = {3.04e-10, 1.95e-10, 2.26e-11, 1.17e-12, 3.36e-12, 3.36e-12}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.88e-07,
     .bytes = {5.85e-12, 2.81e-11, 3.59e-11, 3.59e-11, 5.94e-11, 8.71e-11},
     .shared = {0, 2.14e-11, 2.82e-11, 2.75e-11, 5.07e-11, 7.83e-11},
     .combined = {8.34e-11, 2.39e-11, 9.82e-12, 0, 0, 0}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 2.94e-07,
     .bytes = {3.25e-11, 4.22e-11, 4.41e-11, 4.17e-11, 5.88e-11, 8.18e-11},
     .shared = {0, 6.59e-12, 5.5e-12, 0, 1.71e-11, 4.01e-11},
     .combined = {0, 4.82e-12, 5.81e-12, 4.58e-12, 1.31e-11, 2.46e-11}},
    {.ranks = 4, .runs_as = pattern::rounds, .round = 0, .hop = 9.74e-07, .turn = 1.24e-06, .message = 1.24e-07,
     .bytes = {4.59e-12, 0, 0, 1.61e-11, 6.51e-11, 6.51e-11},
     .shared = {3.04e-10, 2.79e-10, 2.31e-10, 1.56e-10, 1.54e-10, 1.54e-10},
     .combined = {2.99e-11, 1.55e-11, 2.3e-11, 5.42e-11, 0, 0}},
    {.ranks = 4, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 3.67e-07,
     .bytes = {5.33e-11, 4.87e-11, 7.05e-11, 6.22e-11, 7.59e-11, 7.59e-11},
     .shared = {3.39e-12, 2.25e-12, 7.71e-12, 5.62e-12, 9.04e-12, 9.04e-12},
     .combined = {4.11e-12, 1.02e-11, 4.11e-11, 3.66e-11, 2.88e-11, 2.88e-11}},
    {.ranks = 4, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.02e-06,
     .bytes = {8.64e-11, 8.26e-11, 8.87e-11, 1.07e-10, 1.11e-10, 1.11e-10},
     .shared = {3.84e-12, 0, 6.07e-12, 2.46e-11, 2.84e-11, 2.84e-11},
     .combined = {1.05e-10, 8.86e-11, 5.37e-11, 1.08e-11, 0, 0}},
    {.ranks = 4, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.25e-06,
     .bytes = {1.36e-10, 1.36e-10, 1.26e-10, 1.2e-10, 1.34e-10, 1.34e-10},
     .shared = {2.47e-11, 2.5e-11, 1.42e-11, 8.56e-12, 2.26e-11, 2.26e-11},
     .combined = {8.7e-12, 8.88e-12, 3.48e-12, 6.55e-13, 7.69e-12, 7.69e-12}},
    {.ranks = 8, .runs_as = pattern::rounds, .round = 0, .hop = 1.59e-06, .turn = 4.12e-06, .message = 5.32e-07,
     .bytes = {1.45e-10, 1.22e-10, 5.54e-11, 2.75e-11, 5.52e-11, 1.16e-10},
     .shared = {3.09e-10, 2.92e-10, 2.36e-10, 2.84e-10, 4.84e-10, 5.66e-10},
     .combined = {1.14e-11, 0, 0, 0, 0, 0}},
    {.ranks = 8, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 3.54e-07,
     .bytes = {2.9e-11, 5.22e-11, 7.7e-11, 6.09e-11, 7.51e-11, 1.69e-10},
     .shared = {3.88e-13, 3.28e-12, 6.39e-12, 4.38e-12, 6.16e-12, 1.79e-11},
     .combined = {1.25e-11, 1.3e-11, 3.09e-11, 5.76e-13, 7.65e-12, 7.65e-12}},
    {.ranks = 8, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.36e-06,
     .bytes = {1.59e-10, 1.7e-10, 1.85e-10, 2.05e-10, 2.3e-10, 2.71e-10},
     .shared = {0, 1.09e-11, 2.53e-11, 4.6e-11, 7.09e-11, 1.11e-10},
     .combined = {0, 0, 0, 0, 0, 0}},
    {.ranks = 8, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.43e-06,
     .bytes = {1.25e-10, 1.24e-10, 1.28e-10, 1.51e-10, 2.19e-10, 2.19e-10},
     .shared = {4.03e-11, 3.97e-11, 4.38e-11, 6.68e-11, 1.35e-10, 1.35e-10},
     .combined = {1.02e-11, 9.9e-12, 1.2e-11, 2.34e-11, 5.74e-11, 5.74e-11}},
    {.ranks = 16, .runs_as = pattern::rounds, .round = 0, .hop = 5.14e-06, .turn = 8.97e-06, .message = 1.65e-06,
     .bytes = {1.4e-10, 1.26e-10, 6.99e-11, 7.39e-11, 2.14e-10, 2.3e-10},
     .shared = {7.62e-10, 7.54e-10, 7.42e-10, 8.02e-10, 9.37e-10, 9.53e-10},
     .combined = {1.99e-10, 1.9e-10, 1.56e-10, 1.51e-10, 1.76e-10, 1.76e-10}},
    {.ranks = 16, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 8.7e-07,
     .bytes = {1.15e-10, 1.02e-10, 5.86e-11, 5.54e-11, 7.84e-11, 7.84e-11},
     .shared = {5.9e-12, 5.1e-12, 2.4e-12, 2.21e-12, 3.64e-12, 3.64e-12},
     .combined = {4.89e-11, 4.37e-11, 2.46e-11, 4.9e-11, 7.64e-11, 7.64e-11}},
    {.ranks = 16, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 2.2e-06,
     .bytes = {3.14e-10, 3.13e-10, 3.37e-10, 4.13e-10, 4.8e-10, 4.95e-10},
     .shared = {2.24e-10, 2.23e-10, 2.47e-10, 3.24e-10, 3.9e-10, 4.05e-10},
     .combined = {1.97e-12, 0, 1.67e-11, 7.77e-11, 8.94e-11, 8.94e-11}},
    {.ranks = 16, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 2.39e-06,
     .bytes = {3.55e-10, 3.54e-10, 3.57e-10, 3.73e-10, 3.87e-10, 3.87e-10},
     .shared = {3.36e-10, 3.35e-10, 3.37e-10, 3.54e-10, 3.68e-10, 3.68e-10},
     .combined = {1.64e-10, 1.63e-10, 1.65e-10, 1.73e-10, 1.8e-10, 1.8e-10}},
}}, .copied = {7.58e-11, 7.58e-11, 4.79e-11, 3.59e-11, 9.34e-11, 1.22e-10}, .noticed = 4.01e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,
     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline KOLO_ABI::recorded
