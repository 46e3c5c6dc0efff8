// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What goes from one rank to one rank: send, receive and exchange between two; shift and permute, which all ranks call.
#pragma once

#include <kolo/collective/permute.hpp>
#include <kolo/collective/send.hpp>
