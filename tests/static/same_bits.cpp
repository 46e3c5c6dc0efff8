// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schedules of the library that give the same bits, proven at compile time for every number of ranks up to 16.
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/same_bits.hpp>

using namespace kolo;

static_assert(same_bits<one_shot::allreduce, two_shot::allreduce, 2, 16, partial_results::wider>);
static_assert(same_bits<one_shot::reduce, two_shot::reduce, 2, 16, partial_results::wider>);
static_assert(same_bits<recursive_doubling::allreduce, rabenseifner::allreduce, 2, 16, partial_results::wider>);
static_assert(same_bits<recursive_doubling::butterfly, sequence<binomial::reduce, binomial::broadcast>>);
