// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same training on simulated ranks in this process, in the virtual time of a described network.
#pragma once

#include "dataset.hpp"
#include "report.hpp"
#include "settings.hpp"

#include <cstddef>

namespace digits {

/// One training; its times are virtual. Throws std::invalid_argument if the network's description cannot be read.
run train_simulated(int ranks, const settings& s, const split& data, std::size_t steps);

}  // namespace digits
