// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in calls whose order is fixed for any count, or by a tree: the bits of an element, the number that divides, who is refused.
#include <kolo/execute/self.hpp>
#include <kolo/kolo.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/same_bits.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace kolo;

std::atomic<int> wrong = 0;

void expect(bool fine, const char* what) {
  if (fine) return;
  std::printf("not so: %s\n", what);
  ++wrong;
}

float operand(std::size_t i, int r) {
  return std::ldexp(1 + 1 / static_cast<float>(i % 7 + 3) + 0.37F / static_cast<float>(r + 3), 3 * r % 11);
}

/// Of all elements of one kind, n in all, the bits of each.
template <class C, class Op, class A>
bool are_alike(C& comm, Op op, A algorithm, std::size_t n, std::vector<float>& known) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = operand(i, comm.rank());
  allreduce(comm, x, op, algorithm);
  if (known.empty()) known.assign(x.begin(), x.begin() + 7);
  for (std::size_t i = 0; i < n; ++i)
    if (std::memcmp(&x[i], &known[i % 7], sizeof(float)) != 0) return false;
  return true;
}

void any_count() {
  constexpr auto one = ordered<order::fixed_for_any_count>(automatic{});
  threads::run(5, [&](auto& comm) {
    std::vector<float> plain, converted, freely;
    for (const std::size_t n : {7u, 1000u, 100'000u}) {
      expect(are_alike(comm, sum, one, n, plain), "one tree");
      expect(are_alike(comm, wire<bfloat16>(sum), one, n, converted), "one tree of what is converted");
    }
    for (const int root : {0, 3}) {
      std::vector<float> x(7), at_root(7);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = operand(i, comm.rank());
      reduce(comm, x, at_root, sum, root, one);
      broadcast(comm, at_root, root);
      if (freely.empty()) freely = at_root;
      expect(freely == at_root, "whatever the root");
    }
  });
}

void members() {
  for (const int p : {3, 4, 5, 16}) {
    const detail::question q{.collective = kind::allreduce, .size = p, .allowed = order::fixed_for_any_count};
    const auto all = detail::candidates_of_one_tree<void>(q);
    expect(all.size() == 2 && compare_bits(one_shot::allreduce{}, two_shot::allreduce{}, p), "two of one tree");
    for (const auto& c : all)
      expect(c.schedule(p).at == detail::erase_schedule(detail::stateless<one_shot::allreduce>, p).at ||
                 c.schedule(p).at == detail::erase_schedule(detail::stateless<two_shot::allreduce>, p).at,
             "its members");
  }
}

void keys() {
  detail::choice a{.collective = kind::allreduce}, b = a;
  b.allowed = order::fixed_for_any_count;
  expect(detail::flags_of(a) != detail::flags_of(b), "what is allowed is part of the key");
}

template <int P>
void by_tree() {
  constexpr auto tree = ordered<order::tree<8>>(automatic{});
  constexpr int mine = 8 / P;
  threads::run(P, [&](auto& comm) {
    const auto leaf = [](int l) { return operand(static_cast<std::size_t>(l), l); };
    const auto sum_of = [&](auto self, int first, int count) -> float {
      return count == 1 ? leaf(first) : self(self, first, count / 2) + self(self, first + count / 2, count / 2);
    };
    for (const std::size_t n : {1u, 20'000u}) {
      std::vector<float> x(n, sum_of(sum_of, comm.rank() * mine, mine)), y = x;
      allreduce(comm, x, sum, tree);
      allreduce(comm, y, average, tree);
      expect(x == std::vector<float>(n, sum_of(sum_of, 0, 8)), "the sum of a tree");
      expect(y == std::vector<float>(n, sum_of(sum_of, 0, 8) / 8), "its average");
    }
  });
}

void refused() {
  threads::run(3, [](auto& comm) {
    float x[] = {1};
    try {
      allreduce(comm, x, sum, ordered<order::tree<8>>(automatic{}));
      expect(false, "three ranks and eight leaves");
    } catch (const error&) {
    }
  });
}

struct with_a_library : self::transport {
  with_a_library split(int, int) { return {}; }
};

}  // namespace

template <>
struct kolo::detail::native_of<with_a_library> {
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
  using detail::may_be_native;
  expect(may_be_native<kind::allreduce, float, sum_t, order::fixed_for_size, with_a_library>() &&
             !may_be_native<kind::allreduce, float, sum_t, order::fixed_for_any_count, with_a_library>(),
         "a library's bits are its own");
  return wrong == 0 ? 0 : 1;
}
