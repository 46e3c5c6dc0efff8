// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in calls on elements of a run-time type, in ragged reduce_scatter, and in LightGBM's adapter.
// built with others: ranks
#include <kolo/adapt/lightgbm.hpp>
#include <kolo/kolo.hpp>
#include <kolo/untyped.hpp>

#include <cstring>
#include <vector>

#include "support/compose.hpp"
#include "support/expect.hpp"

using kolo::element_type, kolo::elements, kolo::reduction;

namespace {

using testing::expect, testing::good;

template <class Call>
bool throws(Call call) {
  try {
    call();
    return false;
  } catch (const kolo::error&) {
    return true;
  }
}

/// Combines blocks; the result replaces one of the sources.
void blocks(int n, int place) {
  const kolo::block_function by{2, &compose_bytes, false};
  const kolo::kernel k = by.kernel();
  std::vector<std::byte> all[3], wanted{std::byte{3}, std::byte{1}};
  std::vector<kolo::source> sources;
  for (unsigned s = 0; s < 3; ++s) all[s] = {static_cast<std::byte>(2 * s + 3), static_cast<std::byte>(5 * s + 1)};
  for (int s = 0; s < n; ++s) sources.push_back({all[s].data(), false});
  for (int s = 1; s < n; ++s) {
    auto right = all[s];
    compose_bytes(wanted.data(), right.data(), 1);
    wanted = right;
  }
  k.combine(k.op, all[place].data(), sources.data(), n, 1, 0);
  expect(all[place] == wanted);
}

void booleans() {
  const kolo::kernel k = kolo::make_kernel(element_type::boolean, reduction::sum);
  std::byte a{1}, b{1}, c{0};
  const kolo::source both[] = {{&a, false}, {&b, false}};
  k.combine(k.op, &c, both, 2, 1, 0);
  expect(c == std::byte{1});
}

void refusals() {
  int x[4] = {}, y[4] = {};
  const elements floats{y, 4, element_type::float32}, integers{x, 4, element_type::int32};
  const auto alone = [](auto call) { kolo::threads::run(1, [&](auto& comm) { expect(throws([&] { call(comm); })); }); };
  alone([&](auto& comm) { kolo::allreduce(comm, integers, floats, reduction::sum); });
  alone([&](auto& comm) { kolo::scan(comm, floats, elements{x, 4, element_type::float32}, reduction::average); });
  const auto differ = [&](auto& comm) {
    int z = 1;
    for (const auto other :
         {reduction::sum, reduction::max})  // the second call finds the first one's plan in the cache
      expect(throws([&] {
               kolo::allreduce(comm, elements{&z, 1, element_type::int32}, comm.rank() == 0 ? reduction::sum : other);
             }) == (other == reduction::max));
  };
  try {
    kolo::threads::run(2, differ, {.timeout = std::chrono::seconds{5}});
  } catch (const kolo::error&) {
  }
}

/// The result may be in place, in this rank's block.
void ragged(kolo::threads::communicator& comm) {
  const std::vector<int> counts{1, 3};
  std::vector<int> x{1, 2, 3, 4};
  const auto mine = comm.rank() == 0 ? std::span{x}.first(1) : std::span{x}.last(3);
  kolo::reduce_scatter(comm, x, mine, counts, kolo::sum);
  expect(comm.rank() == 0 ? mine[0] == 2 : mine[0] == 4 && mine[2] == 8);
}

void add(const char* in, char* inout, int size, std::int32_t bytes) {
  for (std::int32_t at = 0; at < bytes; at += size) {
    double a, b;
    std::memcpy(&a, in + at, sizeof a);
    std::memcpy(&b, inout + at, sizeof b);
    b += a;
    std::memcpy(inout + at, &b, sizeof b);
  }
}

/// Like LightGBM's allreduce: reduce_scatter leaves the block at the beginning of the output, from which allgather takes it.
void lightgbm(kolo::threads::communicator& comm) {
  using network_type = kolo::lightgbm_network<kolo::threads::communicator>;
  const network_type network{comm};
  const std::int32_t first[] = {0, 8}, bytes[] = {8, 24};
  double in[4] = {1, 2, 3, 4}, out[4] = {};
  void (*const f)(const char*, char*, int, std::int32_t) = &add;
  using reduce_scatter = void (*)(char*, std::int32_t, int, const std::int32_t*, const std::int32_t*, int, char*,
                                  std::int32_t, void (*const&)(const char*, char*, int, std::int32_t));
  using allgather = void (*)(char*, std::int32_t, const std::int32_t*, const std::int32_t*, int, char*, std::int32_t);
  auto* const result = reinterpret_cast<char*>(out);
  reinterpret_cast<reduce_scatter>(network_type::reduce_scatter())(reinterpret_cast<char*>(in), 32, 8, first, bytes, 2,
                                                                   result, 32, f);
  reinterpret_cast<allgather>(network_type::allgather())(result, bytes[comm.rank()], first, bytes, 2, result, 32);
  for (int i = 0; i < 4; ++i) expect(out[i] == 2.0 * (i + 1));
}

}  // namespace

int main() {
  for (int n = 1; n <= 3; ++n)
    for (int place = 0; place < n; ++place) blocks(n, place);
  booleans();
  refusals();
  kolo::threads::run(2, ragged, {.timeout = std::chrono::seconds{10}});
  kolo::threads::run(2, lightgbm, {.timeout = std::chrono::seconds{10}});
  return good ? 0 : 1;
}
