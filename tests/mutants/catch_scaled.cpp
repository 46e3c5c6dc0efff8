// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in wire types of scaled groups: values, copies at the ends of tensors, eligible schedules, error feedback.
#include <kolo/launch/threads.hpp>
#include <kolo/scaled.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/train/optimizer.hpp>

#include <cmath>

#include "train/model.hpp"

using namespace testing;

namespace {

tally t;
using eighths = kolo::scaled<kolo::fp8_e4m3, 4>;
using bytes = kolo::scaled<std::int8_t, 4>;

template <class W>
bool becomes(typename W::elements x, typename W::elements expected) {
  const auto is = static_cast<typename W::elements>(W{x});
  for (int i = 0; i < 4; ++i)
    if (is.x[i] != expected.x[i] && !(std::isnan(is.x[i]) && std::isnan(expected.x[i]))) return false;
  return true;
}

void numbers() {
  using kolo::fp8_e4m3, kolo::fp8_e5m2;
  t.expect(fp8_e4m3(1.0625F).bits() == 0x38 && fp8_e4m3(1.1875F).bits() == 0x3a && fp8_e4m3(1e9F).bits() == 0x7e);
  t.expect(fp8_e4m3(-0x1p-9F).bits() == 0x81 && fp8_e4m3(0x1.8p-9F).bits() == 2 && fp8_e5m2(-HUGE_VALF).bits() == 0xfb);
  t.expect(float{fp8_e4m3::from_bits(3)} == 0x3p-9F && std::isinf(float{fp8_e5m2::from_bits(0x7c)}) &&
           std::isnan(float{fp8_e4m3::from_bits(0xff)}));
  const float nan = std::nanf("");
  t.expect(becomes<bytes>({{253, -254, 2.9F, 0}}, {{252, -254, 2, 0}}) &&
           becomes<eighths>({{448, 17, -1, 0}}, {{448, 16, -1, 0}}));
  t.expect(becomes<bytes>({{1, HUGE_VALF, 0, 0}}, {{nan, nan, nan, nan}}) &&
           becomes<bytes>({{0x1p-130F, 0, 0, 0}}, {{}}) && becomes<eighths>({{}}, {{}}));
}

/// Eleven elements in two tensors: the second group has elements of both, and the third is not full.
template <class C>
void across_tensors(C& comm) {
  const auto op = kolo::wire<bytes>(kolo::sum);
  const std::vector<float> in(11, 127.0F * static_cast<float>(1 + comm.rank()));
  const float expected = 127.0F * 3;
  const auto all_are = [&](const std::vector<float>& x) {
    return std::count(x.begin(), x.end(), expected) == std::ssize(x);
  };
  std::vector<float> a(6), b(5), out(11);
  const auto fill = [&] { a.assign(6, in[0]), b.assign(5, in[0]); };
  fill();
  kolo::allreduce(comm, kolo::bucket{a, b}, op);
  t.expect(all_are(a) && all_are(b));
  fill();
  kolo::start_allreduce(comm, kolo::bucket{a, b}, op).wait();
  t.expect(all_are(a) && all_are(b));
  fill();
  {
    auto request = kolo::start_allreduce(comm, kolo::bucket{a, b}, op);
    while (!request.test()) {
    }
    std::fill(b.begin(), b.end(), expected + 1);  // elements written after the call stay
  }
  t.expect(all_are(a) && b[0] == expected + 1);
  auto plan = kolo::plan_allreduce(comm, kolo::bucket{a, b}, op);
  for (int k = 0; k < 2; ++k) {
    fill();
    plan.run();
    t.expect(all_are(a) && all_are(b));
  }
  kolo::allreduce(comm, in, out, op);
  t.expect(all_are(out));
}

void overlap() {
  std::vector<float> x(12);
  try {
    kolo::threads::run(1, [&](auto& comm) {
      kolo::allreduce(comm, std::span{x}.first(8), std::span{x}.last(8), kolo::wire<bytes>(kolo::sum));
    });
    t.expect(false);
  } catch (const kolo::error& e) {
    t.expect(e.code() == kolo::errc::invalid_argument);
  }
}

template <class C>
void feedback(C& comm) {
  model mine{{5, 6}};
  for (auto& v : mine.values) std::fill(v.begin(), v.end(), 0.0F);
  kolo::distributed_optimizer optimizer{
      comm, descent{1}, mine.parameters(), kolo::wire<bytes>(kolo::average), {.error_feedback = true}};
  for (int step = 0; step < 8; ++step) {
    for (auto& g : mine.gradients) g = {127, 1.25F, 1.25F, 1.25F, 127};
    mine.gradients[1].push_back(127);
    mine.gradients[1][3] = 127;
    optimizer.step();
  }
  t.expect(mine.values[0][2] == -10 && mine.values[1][1] == -10);
}

}  // namespace

int main() {
  numbers();
  for (int p = 2; p <= 5; ++p)
    t.expect(kolo::reduces_once(kolo::two_shot::allreduce{}, p) && kolo::reduces_once(kolo::one_shot::allreduce{}, p) &&
             kolo::reduces_once(kolo::ring::allreduce{}, p) == (p == 2));
  overlap();
  kolo::threads::run(2, [](auto& comm) { across_tensors(comm), feedback(comm); });
  return t.wrong == 0 ? 0 : 1;
}
