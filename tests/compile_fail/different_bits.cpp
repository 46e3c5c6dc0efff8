// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two schedules that combine by different trees are refused, and the message names the place.
// expect: kolo: these two schedules do not give the same bits
// expect: other_tree.*size<4>.*rank<0>.*block<0>.*block<0>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/same_bits.hpp>

#ifdef KOLO_WRONG
using other = kolo::recursive_doubling::allreduce;
#else
using other = kolo::two_shot::allreduce;
#endif

static_assert(kolo::same_bits<kolo::one_shot::allreduce, other, 2, 16>);
