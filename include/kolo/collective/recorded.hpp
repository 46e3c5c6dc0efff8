// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables that were measured.
#pragma once

#include <kolo/transport/tuning.hpp>

namespace kolo::inline v0::recorded {

inline constexpr tuning shared_memory{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 2e-7, .message = 0, .bytes = {3e-11, 3e-11, 3e-11, 3e-11, 3e-11, 6e-11}, .shared = {}, .combined = {}},
    {.ranks = 2, .runs_as = pattern::one_way, .round = 5e-8, .message = 5e-8, .bytes = {3e-11, 3e-11, 3e-11, 3e-11, 3e-11, 6e-11}, .shared = {}, .combined = {}},
    {.ranks = 2, .runs_as = pattern::exchange, .round = 5e-8, .message = 5e-8, .bytes = {3e-11, 3e-11, 3e-11, 3e-11, 3e-11, 6e-11}, .shared = {}, .combined = {2e-11, 2e-11, 2e-11, 2e-11, 2e-11, 2e-11}},
    {.ranks = 2, .runs_as = pattern::there_and_back, .round = 2.5e-7, .message = 0, .bytes = {3e-11, 3e-11, 3e-11, 3e-11, 3e-11, 6e-11}, .shared = {}, .combined = {}},
}}, .copied = {2e-11, 2e-11, 2e-11, 2e-11, 2e-11, 2e-11}, .noticed = 7e-8};

inline constexpr tuning messages{.rows = {{
    {.ranks = 2, .runs_as = pattern::rounds, .round = 2e-6, .message = 1e-6, .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},
}}, .copied = {2e-11, 2e-11, 2e-11, 2e-11, 2e-11, 2e-11}, .noticed = 2e-6};

}  // namespace kolo::inline v0::recorded
