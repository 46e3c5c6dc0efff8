// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps an algorithm's name on the command line to its type.
#pragma once

#include <kolo/collective/allreduce.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/ring.hpp>

#include <stdexcept>
#include <string>

namespace digits {

/// Calls f with the algorithm of this name, which is one of `algorithms`.
template <class F>
void with_algorithm(const std::string& name, F&& f) {
  if (name == "auto") return f(kolo::automatic{});
  if (name == "ring") return f(kolo::ring{});
  if (name == "recursive_doubling") return f(kolo::recursive_doubling{});
  if (name == "circulant") return f(kolo::circulant{});
  if (name == "one_shot") return f(kolo::one_shot{});
  if (name == "two_shot") return f(kolo::two_shot{});
  throw std::invalid_argument("there is no algorithm '" + name + "'");
}

}  // namespace digits
