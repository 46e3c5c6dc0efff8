// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On a real GPU: reductions with the bits of the host, and device communicators over threads that share the GPU. Status 77 where there is none.
#include <kolo/cuda/reduce.cuh>

#include "cuda/ranks.hpp"
#include "cuda/same_bits.hpp"

#include <cstdio>

namespace {

using transport = kolo::cuda::on_device<testing::message_transport>;

template <class F>
int judge(const char* name, F test) {
  testing::complaints wrong;
  try {
    test(wrong);
  } catch (const std::exception& e) {
    wrong.say(std::string{"threw: "} + e.what());
  }
  std::printf("%-6s %s\n%s", wrong.text().empty() ? "passed" : "FAILED", name, wrong.text().c_str());
  return wrong.text().empty() ? 0 : 1;
}

template <class F>
void on_threads(testing::complaints& wrong, F each) {
  for (const int p : {1, 2, 3, 4, 8})
    testing::run_device_threads<transport>(p, kolo::cuda::route::staged, [&](auto& comm) {
      kolo::cuda::set_device(0);
      const kolo::cuda::stream s;
      each(comm, wrong, s);
    });
}

void combine_call(testing::complaints& wrong, cudaStream_t s) {
  testing::tensor<float> a{testing::of_rank(0, 1000), s}, b{testing::of_rank(1, 1000), s};
  kolo::cuda::combine(s, a.view(), {a.view(), b.view()}, kolo::average, 2);
  auto expected = testing::summed(2, 1000);
  for (auto& x : expected) x /= 2;
  testing::expect_same(wrong, "combine", 0, a.values(), expected);
}

}  // namespace

int main() {
  if (kolo::cuda::devices() == 0) {
    std::puts("not run: there is no GPU here, or no driver for it");
    return 77;
  }
  const kolo::cuda::stream s;
  int failed = 0;
  failed += judge("the bits of the host", [&](testing::complaints& wrong) { testing::same_bits_as_the_host(wrong, 300'001, s); });
  failed += judge("copies in order", [&](testing::complaints& wrong) { testing::copies_keep_their_order(wrong, s); });
  failed += judge("combine", [&](testing::complaints& wrong) { combine_call(wrong, s); });
  failed += judge("views of every kind, staged", [](testing::complaints& wrong) {
    on_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) { testing::views_of_every_kind(comm, w, own); });
  });
  failed += judge("streams in order, staged", [](testing::complaints& wrong) {
    on_threads(wrong, [](auto& comm, testing::complaints& w, cudaStream_t own) { testing::keeps_the_order_of_streams(comm, w, own); });
  });
  return failed == 0 ? 0 : 1;
}
