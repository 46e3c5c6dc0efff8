// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/schedule/cost_model.hpp>

namespace kolo::inline KOLO_ABI::recorded {

/// Processes, and threads, on one host of two cores, near each other and far: with more ranks than two they take turns.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 1.08e-07, .hop = 5.44e-08, .turn = 1.36e-07, .message = 2.64e-08,
     .bytes = {1.7e-11, 0, 0, 0, 0, 7.46e-12},
     .shared = {6.71e-11, 4.7e-11, 3.59e-11, 4.04e-11, 4.57e-11, 5.32e-11},
     .combined = {8.14e-11, 4.69e-11, 1.92e-11, 1.28e-11, 1.39e-11, 2.14e-11}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 1.21e-07,
     .bytes = {5.44e-11, 2.9e-11, 2.47e-11, 2.15e-11, 2.74e-11, 7.37e-11},
     .shared = {1.64e-11, 3.75e-12, 1.58e-12, 0, 0, 2.32e-11},
     .combined = {2.78e-11, 1.22e-11, 1.41e-11, 1.15e-11, 8.03e-12, 8.03e-12}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.21e-07,
     .bytes = {1.66e-12, 2.09e-11, 3.3e-11, 4.55e-11, 5.23e-11, 6.26e-11},
     .shared = {0, 4.62e-12, 2.07e-12, 0, 6.73e-12, 1.71e-11},
     .combined = {3.96e-11, 1.78e-11, 5.55e-12, 0, 0, 0}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.49e-07,
     .bytes = {6.24e-11, 3.64e-11, 3.22e-11, 3.24e-11, 3.77e-11, 4.53e-11},
     .shared = {3.03e-11, 4.19e-12, 0, 0, 0, 7.56e-12},
     .combined = {1.51e-11, 2.1e-12, 0, 0, 0, 3.78e-12}},
    {.ranks = 4, .runs_as = pattern::rounds, .round = 0, .hop = 6.34e-07, .turn = 9.46e-07, .message = 1.19e-07,
     .bytes = {5.42e-12, 0, 8.34e-13, 1.07e-11, 9.83e-12, 9.83e-12},
     .shared = {2.06e-10, 1.34e-10, 5.77e-11, 6.85e-11, 1.06e-10, 1.06e-10},
     .combined = {3.49e-11, 1.48e-11, 2.3e-11, 9.21e-12, 9.63e-12, 9.63e-12}},
    {.ranks = 4, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 2.8e-07,
     .bytes = {1.73e-11, 1.81e-11, 1.47e-11, 2.48e-11, 3.22e-11, 3.22e-11},
     .shared = {1.97e-12, 2.17e-12, 1.33e-12, 3.86e-12, 5.71e-12, 5.71e-12},
     .combined = {2.88e-11, 4.17e-12, 1.31e-11, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 7.31e-07,
     .bytes = {6.9e-11, 4.69e-11, 4e-11, 5.84e-11, 7.96e-11, 7.96e-11},
     .shared = {2.9e-11, 6.91e-12, 0, 1.84e-11, 3.96e-11, 3.96e-11},
     .combined = {4.66e-11, 1.56e-11, 1.94e-11, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 8.52e-07,
     .bytes = {5.89e-11, 5.87e-11, 5.09e-11, 5.6e-11, 7.2e-11, 7.2e-11},
     .shared = {8.06e-12, 7.84e-12, 0, 5.15e-12, 2.12e-11, 2.12e-11},
     .combined = {4.03e-12, 3.92e-12, 0, 2.57e-12, 1.06e-11, 1.06e-11}},
    {.ranks = 8, .runs_as = pattern::rounds, .round = 0, .hop = 8.84e-07, .turn = 2.9e-06, .message = 4.12e-07,
     .bytes = {1.78e-11, 0, 0, 2.28e-11, 1.9e-11, 6.59e-11},
     .shared = {3.02e-10, 2.66e-10, 1.58e-10, 1.36e-10, 2.4e-10, 2.7e-10},
     .combined = {4.87e-11, 3.82e-11, 3.03e-11, 2.56e-11, 6.47e-11, 6.47e-11}},
    {.ranks = 8, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 2.62e-07,
     .bytes = {4.15e-11, 1.66e-11, 1.68e-11, 2.4e-11, 3.39e-11, 5.3e-11},
     .shared = {1.18e-11, 8.68e-12, 8.71e-12, 9.6e-12, 1.08e-11, 1.32e-11},
     .combined = {2.79e-11, 4.91e-12, 9.77e-12, 5.29e-12, 0, 0}},
    {.ranks = 8, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 8.73e-07,
     .bytes = {1.17e-10, 1.11e-10, 1.1e-10, 1.49e-10, 1.96e-10, 2.16e-10},
     .shared = {6.86e-12, 6.13e-13, 0, 3.85e-11, 8.58e-11, 1.05e-10},
     .combined = {1.25e-11, 6.27e-12, 8.24e-12, 8.38e-12, 0, 0}},
    {.ranks = 8, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.07e-06,
     .bytes = {1.33e-10, 1.33e-10, 1.34e-10, 1.49e-10, 2.1e-10, 2.1e-10},
     .shared = {0, 5.58e-13, 1.68e-12, 1.64e-11, 7.75e-11, 7.75e-11},
     .combined = {0, 2.79e-13, 8.41e-13, 8.21e-12, 3.88e-11, 3.88e-11}},
    {.ranks = 16, .runs_as = pattern::rounds, .round = 1.1e-06, .hop = 1.89e-06, .turn = 9.72e-06, .message = 1.25e-06,
     .bytes = {5.92e-11, 5.96e-11, 5.59e-11, 2.61e-11, 7.94e-11, 9e-11},
     .shared = {4.39e-10, 4.35e-10, 4.18e-10, 3.93e-10, 4.58e-10, 4.69e-10},
     .combined = {1.07e-10, 1.01e-10, 7.99e-11, 4.19e-11, 3.07e-11, 3.07e-11}},
    {.ranks = 16, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 4.39e-07,
     .bytes = {3.54e-11, 2.77e-11, 2.54e-11, 3.54e-11, 2.3e-11, 2.3e-11},
     .shared = {5e-12, 4.52e-12, 4.38e-12, 5e-12, 4.22e-12, 4.22e-12},
     .combined = {5e-11, 4.53e-11, 4.09e-11, 3.2e-11, 1.96e-11, 1.96e-11}},
    {.ranks = 16, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.38e-06,
     .bytes = {2.57e-10, 2.57e-10, 2.69e-10, 2.87e-10, 3.29e-10, 3.36e-10},
     .shared = {1.39e-10, 1.39e-10, 1.51e-10, 1.69e-10, 2.11e-10, 2.18e-10},
     .combined = {1.11e-10, 1.12e-10, 1.24e-10, 1.48e-10, 1.51e-10, 1.51e-10}},
    {.ranks = 16, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 2.31e-06,
     .bytes = {2.5e-10, 2.5e-10, 2.5e-10, 2.54e-10, 2.59e-10, 2.59e-10},
     .shared = {2.2e-10, 2.2e-10, 2.2e-10, 2.24e-10, 2.29e-10, 2.29e-10},
     .combined = {1.04e-10, 1.04e-10, 1.04e-10, 1.06e-10, 1.08e-10, 1.08e-10}},
}}, .copied = {4.28e-11, 4.28e-11, 3.24e-11, 3.08e-11, 3.6e-11, 5.85e-11}, .noticed = 6.01e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,
     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline KOLO_ABI::recorded
