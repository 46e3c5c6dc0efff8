// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/transport/tuning.hpp>

namespace kolo::inline v0::recorded {

/// Processes, and threads, on one host of two cores: with more ranks than two they take turns.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 1.13e-07, .hop = 2.99e-08, .turn = 1.5e-07, .message = 0,
     .bytes = {1.3e-11, 0, 0, 0, 0, 8.66e-12},
     .shared = {4.87e-11, 3.73e-11, 2.97e-11, 3.32e-11, 4.19e-11, 5.05e-11},
     .combined = {6.03e-11, 3.69e-11, 1.56e-11, 1.11e-11, 1.34e-11, 2.21e-11}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 1.03e-07,
     .bytes = {4.8e-11, 2.38e-11, 2.02e-11, 1.82e-11, 2.51e-11, 6.6e-11},
     .shared = {1.52e-11, 3.16e-12, 1.37e-12, 3.29e-13, 3.78e-12, 2.42e-11},
     .combined = {2.43e-11, 1.03e-11, 1.17e-11, 9.4e-12, 7.11e-12, 7.11e-12}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 1.06e-07,
     .bytes = {0, 1.61e-11, 2.74e-11, 3.82e-11, 4.58e-11, 5.51e-11},
     .shared = {0, 3.37e-12, 1.91e-12, 0, 7.56e-12, 1.69e-11},
     .combined = {3.24e-11, 1.51e-11, 4.39e-12, 0, 0, 0}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 1.55e-07,
     .bytes = {3.12e-11, 2.69e-11, 2.68e-11, 2.75e-11, 3.23e-11, 4.28e-11},
     .shared = {4.48e-12, 1.55e-13, 0, 0, 0, 1.05e-11},
     .combined = {2.24e-12, 7.75e-14, 0, 0, 2.38e-12, 7.63e-12}},
    {.ranks = 4, .runs_as = pattern::rounds, .round = 0, .hop = 6.33e-07, .turn = 8.53e-07, .message = 9.71e-08,
     .bytes = {1.1e-12, 0, 0, 1.16e-11, 9.65e-12, 9.65e-12},
     .shared = {1.44e-10, 1.02e-10, 4.73e-11, 5.48e-11, 9.75e-11, 9.75e-11},
     .combined = {1.57e-11, 1.15e-11, 1.7e-11, 1.39e-11, 1.33e-11, 1.33e-11}},
    {.ranks = 4, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 2.56e-07,
     .bytes = {1.11e-11, 1.35e-11, 1.17e-11, 2.2e-11, 2.92e-11, 2.92e-11},
     .shared = {1.16e-12, 1.78e-12, 1.33e-12, 3.9e-12, 5.71e-12, 5.71e-12},
     .combined = {1.64e-11, 4.71e-12, 9.79e-12, 1.75e-12, 0, 0}},
    {.ranks = 4, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 7.03e-07,
     .bytes = {4.72e-11, 3.33e-11, 3.37e-11, 4.85e-11, 7.32e-11, 7.32e-11},
     .shared = {1.39e-11, 0, 0, 1.49e-11, 3.95e-11, 3.95e-11},
     .combined = {3.45e-11, 1.66e-11, 1.53e-11, 0, 0, 0}},
    {.ranks = 4, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 7.86e-07,
     .bytes = {4.6e-11, 4.58e-11, 4.26e-11, 4.65e-11, 7.24e-11, 7.24e-11},
     .shared = {3.36e-12, 3.21e-12, 0, 3.89e-12, 2.98e-11, 2.98e-11},
     .combined = {1.68e-12, 1.61e-12, 0, 1.95e-12, 1.49e-11, 1.49e-11}},
    {.ranks = 8, .runs_as = pattern::rounds, .round = 0, .hop = 9.47e-07, .turn = 2.66e-06, .message = 3.31e-07,
     .bytes = {1.25e-12, 0, 0, 1.47e-11, 5.72e-12, 2.2e-10},
     .shared = {2.39e-10, 2.18e-10, 1.38e-10, 1.24e-10, 3.14e-10, 4.61e-10},
     .combined = {3.28e-11, 2.88e-11, 2.33e-11, 2.52e-11, 7.76e-11, 7.76e-11}},
    {.ranks = 8, .runs_as = pattern::one_way, .round = 0, .hop = 0, .turn = 0, .message = 2.37e-07,
     .bytes = {2.91e-11, 1.33e-11, 1.43e-11, 2.12e-11, 3.23e-11, 5.9e-11},
     .shared = {8.59e-12, 6.61e-12, 6.73e-12, 7.6e-12, 8.98e-12, 1.23e-11},
     .combined = {1.95e-11, 3.68e-12, 7.53e-12, 3.46e-12, 0, 0}},
    {.ranks = 8, .runs_as = pattern::exchange, .round = 0, .hop = 0, .turn = 0, .message = 8.21e-07,
     .bytes = {8.29e-11, 8.25e-11, 8.84e-11, 1.27e-10, 2.46e-10, 2.77e-10},
     .shared = {4.2e-13, 0, 5.87e-12, 4.46e-11, 1.63e-10, 1.94e-10},
     .combined = {4.95e-12, 4.41e-12, 3.43e-12, 1.25e-12, 0, 0}},
    {.ranks = 8, .runs_as = pattern::there_and_back, .round = 0, .hop = 0, .turn = 0, .message = 9.47e-07,
     .bytes = {1.03e-10, 1.03e-10, 1.04e-10, 1.23e-10, 2.28e-10, 2.28e-10},
     .shared = {1.52e-11, 1.55e-11, 1.65e-11, 3.53e-11, 1.41e-10, 1.41e-10},
     .combined = {0, 1.29e-13, 6.08e-13, 1e-11, 6.3e-11, 6.3e-11}},
}}, .copied = {4.28e-11, 4.28e-11, 3.24e-11, 3.08e-11, 3.6e-11, 5.85e-11}, .noticed = 6.01e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,
     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline v0::recorded
