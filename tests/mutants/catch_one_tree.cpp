// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in calls whose order is fixed for any count, or by a tree: an element's bits, the divisor, and refusals.
#include <kolo/execute/self.hpp>
#include <kolo/kolo.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/same_bits.hpp>

#include <cmath>
#include <cstring>
#include <vector>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using testing::expect, testing::good;

constexpr std::size_t kinds_of_elements = 31;

/// Element i of rank or leaf r; it depends on i % kinds_of_elements.
float operand(std::size_t i, int r) {
  return std::sin(static_cast<float>(i % kinds_of_elements) + 1.7F * static_cast<float>(r));
}

/// True if all of n elements of one kind have the same bits, for any n.
template <class C, class Op, class A>
bool are_alike(C& comm, Op op, A algorithm, std::size_t n, std::vector<float>& known) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = operand(i, comm.rank());
  allreduce(comm, x, op, algorithm);
  if (known.empty()) known.assign(x.begin(), x.begin() + kinds_of_elements);
  for (std::size_t i = 0; i < n; ++i)
    if (std::memcmp(&x[i], &known[i % kinds_of_elements], sizeof(float)) != 0) return false;
  return true;
}

void any_count() {
  constexpr auto one = ordered<order::fixed_for_any_count>(automatic{});
  threads::run(5, [&](auto& comm) {
    std::vector<float> plain, converted, freely;
    for (const std::size_t n : {31u, 1000u, 100'000u}) {
      expect(are_alike(comm, sum, one, n, plain), "the bits of one tree");
      expect(are_alike(comm, wire<bfloat16>(sum), one, n, converted), "the bits of one tree with a wire type");
    }
    for (const int root : {0, 3}) {
      std::vector<float> x(kinds_of_elements), at_root(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = operand(i, comm.rank());
      reduce(comm, x, at_root, sum, root, one);
      broadcast(comm, at_root, root);
      if (freely.empty()) freely = at_root;
      expect(freely == at_root, "the same bits at any root");
    }
  });
}

void members() {
  for (const int p : {3, 4, 5, 16}) {
    const detail::select::selection_query q{
        .collective = kind::allreduce, .size = p, .allowed = order::fixed_for_any_count};
    const auto all = detail::select::candidates_of_one_tree<void>(q);
    expect(all.size() == 2 && compare_bits(one_shot::allreduce{}, two_shot::allreduce{}, p),
           "two candidates of one tree");
    for (const auto& c : all)
      expect(
          c.schedule(p).at == detail::execute::erase_schedule(detail::select::stateless<one_shot::allreduce>, p).at ||
              c.schedule(p).at == detail::execute::erase_schedule(detail::select::stateless<two_shot::allreduce>, p).at,
          "the candidates of the tree");
  }
}

void keys() {
  detail::execute::choice a{.collective = kind::allreduce}, b = a;
  b.allowed = order::fixed_for_any_count;
  expect(detail::select::flags_of(a) != detail::select::flags_of(b), "the allowed order is part of the key");
  a = b, b.reduces_once = true;
  expect(detail::select::flags_of(a) != detail::select::flags_of(b), "reduces_once is part of the key");
}

template <int P>
void by_tree() {
  constexpr auto tree = ordered<order::tree<8>>(automatic{});
  constexpr int mine = 8 / P;
  threads::run(P, [&](auto& comm) {
    const auto sum_of = [&](auto self, std::size_t i, int first, int count) -> float {
      if (count == 1) return operand(i, first);
      return self(self, i, first, count / 2) + self(self, i, first + count / 2, count / 2);
    };
    for (const std::size_t n : {std::size_t{31}, std::size_t{20'000}}) {
      std::vector<float> x(n), y, total(n), mean(n);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = sum_of(sum_of, i, comm.rank() * mine, mine);
        total[i] = sum_of(sum_of, i, 0, 8);
        mean[i] = total[i] / 8;
      }
      y = x;
      allreduce(comm, x, sum, tree);
      allreduce(comm, y, average, tree);
      expect(x == total, "the sum of a tree");
      expect(y == mean, "the average of a tree");
    }
  });
}

void refused() {
  threads::run(3, [](auto& comm) {
    float x[] = {1};
    try {
      allreduce(comm, x, sum, ordered<order::tree<8>>(automatic{}));
      expect(false, "three ranks with eight leaves are refused");
    } catch (const error&) {
    }
  });
}

struct with_a_library : self::transport {
  with_a_library split(int, int) { return {}; }
};

}  // namespace

template <>
struct kolo::native_of<with_a_library> {
  static constexpr bool comes_first = true;
  template <kind K, class T, class Op>
  static constexpr bool has() {
    return true;
  }
};

int main() {
  any_count();
  members();
  keys();
  by_tree<1>();
  by_tree<2>();
  by_tree<4>();
  by_tree<8>();
  refused();
  using detail::select::may_be_native;
  expect(may_be_native<kind::allreduce, float, sum_t, order::fixed_for_size, with_a_library>() &&
             !may_be_native<kind::allreduce, float, sum_t, order::fixed_for_any_count, with_a_library>(),
         "a library does not promise the bits of any count");
  return good ? 0 : 1;
}
