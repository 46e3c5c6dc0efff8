// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/schedule/cost_model.hpp>

namespace kolo::inline KOLO_ABI::recorded {

/// Processes, and threads, on one host of two cores, near each other and far: with more ranks than two they take turns.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 1.54e-07, .hop = 7.68e-08, .turn = 9.35e-08, .message = 1.68e-08,
     .bytes = {0, 0, 1.14e-11, 6.02e-11, 6.85e-11, 8.64e-11},
     .shared = {9.64e-11, 1.42e-10, 1.79e-10, 8.95e-11, 1.12e-10, 1.29e-10},
     .combined = {0, 0, 0, 1.2e-12, 1.92e-11, 3.7e-11}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 1.06e-07,
     .bytes = {3.07e-11, 9.75e-11, 1.03e-10, 6.71e-11, 6.39e-11, 1.34e-10},
     .shared = {0, 3.34e-11, 3.63e-11, 1.82e-11, 1.66e-11, 5.18e-11},
     .combined = {0, 8.69e-12, 4.58e-12, 0, 1.04e-11, 1.04e-11}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.13e-07,
     .bytes = {6.33e-11, 5.21e-11, 7.15e-11, 9.99e-11, 9.57e-11, 1.45e-10},
     .shared = {1.12e-11, 0, 1.94e-11, 4.78e-11, 4.36e-11, 9.34e-11},
     .combined = {0, 0, 0, 0, 0, 0}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 2.2e-07,
     .bytes = {4.54e-11, 5.15e-11, 5.02e-11, 4.35e-11, 5.39e-11, 7.37e-11},
     .shared = {1.94e-12, 7.95e-12, 6.66e-12, 0, 1.04e-11, 3.02e-11},
     .combined = {9.69e-13, 3.97e-12, 3.33e-12, 0, 5.19e-12, 1.51e-11}},
    {.ranks = 4, .runs_as = pattern::rounds, .round = 0, .hop = 1.02e-06, .turn = 1.18e-06, .message = 1.95e-07,
     .bytes = {4.98e-11, 5.52e-11, 4.14e-11, 5.78e-11, 1.05e-10, 1.05e-10},
     .shared = {2.55e-10, 2.46e-10, 1.56e-10, 1.25e-10, 1.07e-10, 1.07e-10},
     .combined = {0, 0, 0, 9.02e-12, 0, 0}},
    {.ranks = 4, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 4.24e-07,
     .bytes = {5.02e-11, 7.33e-11, 6.81e-11, 7.83e-11, 9.83e-11, 9.83e-11},
     .shared = {0, 5.77e-12, 4.48e-12, 7.02e-12, 1.2e-11, 1.2e-11},
     .combined = {5.35e-12, 1.29e-11, 0, 8.2e-13, 0, 0}},
    {.ranks = 4, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.12e-06,
     .bytes = {1e-10, 9.11e-11, 1e-10, 1.65e-10, 1.62e-10, 1.62e-10},
     .shared = {9.21e-12, 0, 8.93e-12, 7.36e-11, 7.09e-11, 7.09e-11},
     .combined = {1.11e-11, 0, 2.25e-12, 3.72e-14, 0, 0}},
    {.ranks = 4, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.16e-06,
     .bytes = {8.5e-11, 8.4e-11, 7.58e-11, 9.55e-11, 9.99e-11, 9.99e-11},
     .shared = {9.25e-12, 8.22e-12, 0, 1.97e-11, 2.42e-11, 2.42e-11},
     .combined = {4.62e-12, 4.11e-12, 0, 9.85e-12, 1.21e-11, 1.21e-11}},
    {.ranks = 8, .runs_as = pattern::rounds, .round = 0, .hop = 2.18e-06, .turn = 4.4e-06, .message = 5.34e-07,
     .bytes = {7.66e-11, 9.78e-11, 7.11e-11, 4.04e-11, 7.73e-11, 9.02e-11},
     .shared = {3e-10, 3e-10, 2.63e-10, 3.08e-10, 4.09e-10, 4.35e-10},
     .combined = {0, 0, 0, 1.19e-11, 0, 0}},
    {.ranks = 8, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 4.72e-07,
     .bytes = {2.69e-11, 6.63e-11, 7.85e-11, 5.88e-11, 8.59e-11, 1.53e-10},
     .shared = {0, 4.93e-12, 6.45e-12, 3.99e-12, 7.37e-12, 1.58e-11},
     .combined = {0, 0, 0, 5.81e-12, 1.34e-11, 1.34e-11}},
    {.ranks = 8, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.69e-06,
     .bytes = {1.57e-10, 1.67e-10, 2.13e-10, 3.08e-10, 3.49e-10, 3.68e-10},
     .shared = {0, 9.55e-12, 5.6e-11, 1.5e-10, 1.91e-10, 2.1e-10},
     .combined = {0, 0, 0, 0, 0, 0}},
    {.ranks = 8, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.64e-06,
     .bytes = {1.53e-10, 1.53e-10, 1.55e-10, 1.78e-10, 2.1e-10, 2.1e-10},
     .shared = {6.48e-11, 6.5e-11, 6.65e-11, 8.99e-11, 1.21e-10, 1.21e-10},
     .combined = {2.08e-11, 2.09e-11, 2.16e-11, 3.33e-11, 4.9e-11, 4.9e-11}},
    {.ranks = 16, .runs_as = pattern::rounds, .round = 1.33e-06, .hop = 8.54e-06, .turn = 8.73e-06, .message = 2.21e-06,
     .bytes = {1.46e-10, 1.49e-10, 1.42e-10, 8.46e-11, 1.67e-10, 1.8e-10},
     .shared = {1.2e-09, 1.2e-09, 1.19e-09, 1.15e-09, 1.23e-09, 1.25e-09},
     .combined = {0, 1.66e-12, 2.23e-11, 7.79e-11, 1.08e-10, 1.08e-10}},
    {.ranks = 16, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 8.04e-07,
     .bytes = {1.31e-10, 1.35e-10, 8.94e-11, 5.14e-11, 1.01e-10, 1.01e-10},
     .shared = {5.13e-12, 5.35e-12, 2.53e-12, 1.56e-13, 3.27e-12, 3.27e-12},
     .combined = {1.46e-11, 2.24e-11, 3.62e-11, 5.96e-11, 7.98e-11, 7.98e-11}},
    {.ranks = 16, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 2.89e-06,
     .bytes = {3.7e-10, 3.71e-10, 3.9e-10, 4.39e-10, 5.06e-10, 5.21e-10},
     .shared = {2.83e-10, 2.84e-10, 3.03e-10, 3.51e-10, 4.19e-10, 4.34e-10},
     .combined = {3.12e-11, 3.15e-11, 5.05e-11, 1.02e-10, 1.18e-10, 1.18e-10}},
    {.ranks = 16, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 3.29e-06,
     .bytes = {5.85e-10, 5.85e-10, 5.86e-10, 5.92e-10, 5.96e-10, 5.96e-10},
     .shared = {5.71e-10, 5.71e-10, 5.72e-10, 5.79e-10, 5.83e-10, 5.83e-10},
     .combined = {2.83e-10, 2.83e-10, 2.83e-10, 2.86e-10, 2.88e-10, 2.88e-10}},
}}, .copied = {8.44e-11, 8.44e-11, 4.26e-11, 3.89e-11, 4.66e-11, 1.06e-10}, .noticed = 4.51e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,
     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline KOLO_ABI::recorded
