// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the transport for device views: two ranks on the fake CUDA runtime.
// built with others: devices
#include "cuda/on_double.hpp"
#include "cuda/same_bits.hpp"

using namespace testing;

namespace {

void calls(complaints& wrong, kolo::communicator<device_transport>& comm) {
  const kolo::cuda::stream s, other;
  const int r = comm.rank(), p = comm.size();
  wrong.expect(kolo::topology_of(comm).ranks_per_node == 1, "the nodes");
  tensor<float> a{of_rank(r, 1500), s}, b{of_rank(r, 300), s};
  const kolo::device_strided<float, 2> columns{b.data(), {75, 1}, {4, 1}};
  const auto mine = of_rank(r, 1500);
  kolo::cuda::copy(a.data(), mine.data(), 6000, s);  // still pending
  kolo::allreduce(comm, a.view(), kolo::sum, kolo::ring{}, {.stream = s});
  kolo::allreduce(comm, a.view(), kolo::sum, kolo::ring{}, {.stream = other});
  std::vector<float> got(1500);
  kolo::cuda::copy(got.data(), a.data(), 6000, other);
  other.wait();
  auto twice = summed(p, 1500);
  for (auto& x : twice) x *= static_cast<float>(p);
  expect_same(wrong, "two sums", r, got, twice);
  std::size_t blocks = 0;
  for (int k = 0; k < 30; ++k) {
    kolo::allreduce(comm, columns, kolo::max, kolo::ring{}, {.stream = s});
    if (k == 9) blocks = cuda_double::the.pinned_blocks;
  }
  wrong.expect(r != 0 || cuda_double::the.pinned_blocks <= blocks + 6, "pinned memory grows");
  auto expected = of_rank(r, 300);
  for (std::size_t i = 0; i < 300; i += 4) expected[i] = of_rank(p - 1, 300)[i];
  expect_same(wrong, "columns", r, b.values(), expected);
}

}  // namespace

int main() {
  complaints wrong;
  const kolo::cuda::stream s;
  for (const std::size_t shift : {0, 1})
    for (const int n : {1, 2, 3}) {
      compare<float>(wrong, "average as bfloat16", kolo::wire<kolo::bfloat16>(kolo::average), 39, shift, n, s);
      compare<kolo::float16>(wrong, "average of float16", kolo::average, 39, shift, n, s);
    }
  for (const int places : {1, 3}) compare_places<float>(wrong, "sum", kolo::sum, 39, 0, 2, places, s);
  copies_keep_their_order(wrong, s);
  try {
    auto o = impatient(1024);
    o.ranks_per_node = 1;
    for (const auto route : {kolo::cuda::route::staged, kolo::cuda::route::straight})
      run_device_threads<device_transport>(
          2, route, [&](auto& comm) { calls(wrong, comm); }, o);
  } catch (const std::exception& e) {
    wrong.say(e.what());
  }
  std::fputs(wrong.text().c_str(), stderr);
  return wrong.text().empty() ? 0 : 1;
}
