// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function for one schedule refuses a family of schedules.
// expect: kolo: this is a family of schedules; pass the schedule of one collective, such as ring::allreduce\{\} in place of ring\{\}
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/draw.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/simulate/run.hpp>

template <class A>
concept HasAnAnswer = requires(const A& a) {
  kolo::verify(a, 5), kolo::simulate::run(a, 8, 1000, {}), kolo::draw(a, 4), kolo::cost_of(a, 0, 4, 100);
};
static_assert(HasAnAnswer<kolo::ring>);  // the sentence

#ifdef KOLO_WRONG
inline constexpr kolo::ring all{};
inline constexpr kolo::chain pipelined{.segments = 4};
#else
inline constexpr kolo::ring::allreduce all{};
inline constexpr auto pipelined = kolo::schedule_of<kolo::kind::broadcast>(kolo::chain{.segments = 4});
#endif

int main() {
  const bool good = kolo::verify(all, 5) && kolo::verify(pipelined, 5);
  const double seconds = kolo::simulate::run(all, 8, 1'000'000, {}) + kolo::simulate::run(pipelined, 8, 1'000'000, {});
  return good && seconds > 0 && !kolo::draw(all, 4).empty() && kolo::cost_of(all, 0, 4, 100).sent > 0 ? 0 : 1;
}
