// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/schedule/cost_model.hpp>

namespace kolo::inline KOLO_ABI::recorded {

/// Processes, and threads, on one host of two cores, near each other and far: with more ranks than two they take turns.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 1.36e-07, .hop = 0, .turn = 2.89e-07, .message = 0,
     .bytes = {2.83e-11, 0, 1.99e-11, 5.15e-11, 5.44e-11, 6.35e-11},
     .shared = {1.41e-10, 1.33e-10, 1.61e-10, 8.21e-11, 1.28e-10, 1.37e-10},
     .combined = {0, 0, 0, 0, 9.7e-12, 1.88e-11}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 1.26e-07,
     .bytes = {4.78e-11, 1.22e-10, 1.01e-10, 6.8e-11, 6.79e-11, 1.48e-10},
     .shared = {0, 3.71e-11, 2.67e-11, 1.01e-11, 1e-11, 5.01e-11},
     .combined = {0, 1.03e-11, 3.08e-12, 0, 5.66e-12, 5.66e-12}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.19e-07,
     .bytes = {0, 3.22e-11, 3.21e-11, 2.79e-11, 5.9e-11, 1.21e-10},
     .shared = {0, 3.05e-11, 2.88e-11, 2.33e-11, 5.39e-11, 1.16e-10},
     .combined = {3.96e-11, 0, 0, 0, 0, 0}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 2.04e-07,
     .bytes = {3.84e-11, 4.02e-11, 4.21e-11, 4.14e-11, 4.75e-11, 7.65e-11},
     .shared = {0, 8.52e-13, 1.77e-12, 0, 6.11e-12, 3.52e-11},
     .combined = {0, 4.26e-13, 8.83e-13, 0, 3.05e-12, 1.76e-11}},
    {.ranks = 4, .runs_as = pattern::rounds, .round = 0, .hop = 9.89e-07, .turn = 1.16e-06, .message = 1.38e-07,
     .bytes = {4.32e-12, 5.23e-11, 7.68e-11, 4.85e-11, 6.77e-11, 6.77e-11},
     .shared = {1.68e-10, 1.68e-10, 1.03e-10, 9.57e-11, 1.6e-10, 1.6e-10},
     .combined = {1.33e-11, 2.88e-11, 2.13e-12, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 3.74e-07,
     .bytes = {4.71e-11, 7.39e-11, 7.38e-11, 6.38e-11, 7.96e-11, 7.96e-11},
     .shared = {0, 6.71e-12, 6.68e-12, 4.19e-12, 8.14e-12, 8.14e-12},
     .combined = {0, 2.47e-11, 4.09e-11, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 9.98e-07,
     .bytes = {8.89e-11, 7.95e-11, 8.51e-11, 9.27e-11, 1.33e-10, 1.33e-10},
     .shared = {9.42e-12, 0, 5.63e-12, 1.32e-11, 5.35e-11, 5.35e-11},
     .combined = {1.8e-11, 0, 0, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.15e-06,
     .bytes = {5.94e-11, 6.08e-11, 7.2e-11, 7.73e-11, 1.06e-10, 1.06e-10},
     .shared = {0, 1.4e-12, 1.26e-11, 1.79e-11, 4.7e-11, 4.7e-11},
     .combined = {0, 6.98e-13, 6.3e-12, 8.95e-12, 2.35e-11, 2.35e-11}},
    {.ranks = 8, .runs_as = pattern::rounds, .round = 0, .hop = 1.92e-06, .turn = 3.88e-06, .message = 4.43e-07,
     .bytes = {1.63e-10, 1.47e-10, 7.4e-11, 4.81e-11, 1.24e-10, 1.27e-10},
     .shared = {3.69e-10, 3.49e-10, 2.83e-10, 2.56e-10, 3.91e-10, 4.3e-10},
     .combined = {1.35e-12, 0, 0, 4.03e-12, 0, 0}},
    {.ranks = 8, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 4.9e-07,
     .bytes = {4.11e-11, 4.58e-11, 6.2e-11, 6.47e-11, 9.29e-11, 1.56e-10},
     .shared = {3.91e-12, 4.49e-12, 6.51e-12, 6.85e-12, 1.04e-11, 1.82e-11},
     .combined = {0, 0, 3.32e-11, 2.86e-11, 2.97e-11, 2.97e-11}},
    {.ranks = 8, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.32e-06,
     .bytes = {2.32e-10, 2.37e-10, 2.37e-10, 2.23e-10, 3.32e-10, 3.58e-10},
     .shared = {1.95e-11, 2.39e-11, 2.44e-11, 1.06e-11, 1.2e-10, 1.45e-10},
     .combined = {0, 2.08e-13, 0, 0, 0, 0}},
    {.ranks = 8, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.78e-06,
     .bytes = {1.58e-10, 1.58e-10, 1.56e-10, 1.65e-10, 2.19e-10, 2.19e-10},
     .shared = {7.49e-11, 7.45e-11, 7.27e-11, 8.11e-11, 1.35e-10, 1.35e-10},
     .combined = {2.69e-11, 2.67e-11, 2.58e-11, 3e-11, 5.7e-11, 5.7e-11}},
    {.ranks = 16, .runs_as = pattern::rounds, .round = 1.44e-06, .hop = 5.43e-06, .turn = 8.89e-06, .message = 2.36e-06,
     .bytes = {1.84e-10, 1.8e-10, 1.5e-10, 1.45e-10, 2.56e-10, 2.88e-10},
     .shared = {8.24e-10, 8.2e-10, 7.96e-10, 7.83e-10, 8.77e-10, 9.1e-10},
     .combined = {6.15e-10, 6.14e-10, 6.03e-10, 5.78e-10, 5.61e-10, 5.61e-10}},
    {.ranks = 16, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 1.4e-06,
     .bytes = {1.07e-10, 9.72e-11, 6.21e-11, 6.81e-11, 9.44e-11, 9.44e-11},
     .shared = {4.69e-12, 4.07e-12, 1.88e-12, 2.25e-12, 3.89e-12, 3.89e-12},
     .combined = {5.66e-11, 5.15e-11, 3.44e-11, 4.7e-11, 6.46e-11, 6.46e-11}},
    {.ranks = 16, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 2.74e-06,
     .bytes = {5.33e-10, 5.3e-10, 5.23e-10, 5.29e-10, 5.69e-10, 5.8e-10},
     .shared = {4.59e-10, 4.56e-10, 4.49e-10, 4.55e-10, 4.95e-10, 5.06e-10},
     .combined = {1.1e-10, 1.05e-10, 9.76e-11, 1.01e-10, 9.97e-11, 9.97e-11}},
    {.ranks = 16, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 3.42e-06,
     .bytes = {4.92e-10, 4.92e-10, 4.93e-10, 5.03e-10, 5.11e-10, 5.11e-10},
     .shared = {4.77e-10, 4.77e-10, 4.78e-10, 4.88e-10, 4.96e-10, 4.96e-10},
     .combined = {2.36e-10, 2.35e-10, 2.36e-10, 2.41e-10, 2.45e-10, 2.45e-10}},
}}, .copied = {5.81e-11, 5.81e-11, 3.8e-11, 3.58e-11, 4.91e-11, 1.36e-10}, .noticed = 4.01e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of
/// their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,
     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline KOLO_ABI::recorded
