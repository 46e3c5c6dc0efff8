// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.
#pragma once

#include <kolo/transport/tuning.hpp>

namespace kolo::inline v0::recorded {

/// Processes, and threads, on one host of two cores: with more ranks than two they take turns.
inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 6.11e-08, .hop = 9.52e-08, .message = 6.57e-10,
     .bytes = {6.57e-11, 3.45e-11, 1.93e-11, 0, 0, 3.71e-11},
     .shared = {3.08e-11, 1.16e-11, 1.41e-11, 3.31e-11, 4.76e-11, 7.54e-11},
     .combined = {0, 0, 5.9e-12, 1.65e-11, 1.38e-11, 3.24e-11}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 1.13e-07, .hop = 0, .message = 0,
     .bytes = {3.34e-11, 2.36e-11, 2.4e-11, 1.94e-11, 2.8e-11, 9.35e-11},
     .shared = {7e-12, 2.09e-12, 2.29e-12, 0, 4.29e-12, 3.7e-11},
     .combined = {1.36e-11, 1.09e-11, 9.14e-12, 1e-11, 3.02e-12, 2.87e-12}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 8.77e-08, .hop = 0, .message = 0,
     .bytes = {3.67e-11, 3.5e-11, 3.69e-11, 3.84e-11, 4.25e-11, 1.09e-10},
     .shared = {1.69e-12, 0, 1.95e-13, 0, 4.04e-12, 7.08e-11},
     .combined = {1.77e-12, 0, 0, 0, 0, 2.84e-11}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 1.33e-07, .hop = 0, .message = 0,
     .bytes = {2.98e-11, 2.72e-11, 2.68e-11, 2.79e-11, 3.08e-11, 3.08e-11},
     .shared = {2.92e-12, 3.3e-13, 0, 0, 2.95e-12, 2.95e-12},
     .combined = {1.46e-12, 1.65e-13, 0, 0, 1.48e-12, 1.48e-12}},
}}, .copied = {4.16e-11, 4.16e-11, 2.45e-11, 2e-11, 2.07e-11, 6.96e-11}, .noticed = 6.01e-08};

/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of their own.
inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,
     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};

}  // namespace kolo::inline v0::recorded
