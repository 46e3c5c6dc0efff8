// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on elements whose type and operator are known at run time only: they equal the typed ones, and refuse what would not compile with types.
#include <kolo/untyped.hpp>

#include <algorithm>
#include <numeric>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;
using kolo::element_type, kolo::elements, kolo::reduction;

namespace {

using vector = std::vector<float>;

vector of(int rank, std::size_t n) {
  vector x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = 0.1f * static_cast<float>(i + 1) + static_cast<float>(rank);
  return x;
}
elements<> untyped(vector& x) { return {x.data(), x.size(), element_type::float32}; }

/// `work(comm, expect)` on p threads; returns the expectations that failed.
template <class Work>
std::string on_ranks(int p, Work work, const kolo::threads::options& o = {}) {
  std::string all;
  for (const auto& one : on_threads(
           p,
           [&](auto& comm) {
             std::string wrong;
             work(comm, [&](bool good, const char* what) { wrong += good ? "" : std::string{what} + ", "; });
             return wrong;
           },
           o))
    all += one;
  return all;
}

/// The error of a call of one rank.
template <class Call>
std::string sentence(Call call) {
  return on_threads(1, [&](auto& comm) { return words_of([&] { call(comm); }); })[0];
}

/// x -> a x + b modulo 2^32, eight bytes: composing does not commute.
struct affine {
  unsigned a, b;
  bool operator==(const affine&) const = default;
};
void compose(const std::byte* in, std::byte* inout, std::size_t n) {
  for (std::size_t i = 0; i < n * sizeof(affine); i += sizeof(affine)) {
    affine f, g;
    std::memcpy(&f, in + i, sizeof f);
    std::memcpy(&g, inout + i, sizeof g);
    g = {f.a * g.a, f.b * g.a + g.b};
    std::memcpy(inout + i, &g, sizeof g);
  }
}

}  // namespace

TEST_CASE("untyped: collectives that reduce give the same bits as typed ones") {
  for (const int p : {1, 2, 3})
    for (const std::size_t n : {1u, 12u, 50'000u}) {
      const auto wrong = on_ranks(p, [n](auto& comm, auto expect) {
        auto in = of(comm.rank(), n);
        vector a(n), b(n), x = in, y = in;
        const auto mine = kolo::block(n, comm.size(), comm.rank());
        kolo::allreduce(comm, in, a, kolo::sum);
        kolo::allreduce(comm, untyped(in), untyped(b), reduction::sum);
        expect(a == b, "allreduce");
        kolo::allreduce(comm, x, kolo::average);
        kolo::allreduce(comm, untyped(y), reduction::average);
        expect(x == y, "average in place");
        const int root = comm.size() - 1;
        kolo::reduce(comm, in, a, kolo::max, root);
        kolo::reduce(comm, untyped(in), comm.rank() == root ? untyped(b) : elements{nullptr, 0, element_type::float32},
                     reduction::max, root);
        expect(comm.rank() != root || a == b, "reduce");
        vector c(mine.count), d(mine.count);
        kolo::reduce_scatter(comm, in, c, kolo::sum);
        kolo::reduce_scatter(comm, untyped(in), untyped(d), reduction::sum);
        expect(c == d, "reduce_scatter");
        kolo::scan(comm, in, a, kolo::sum);
        kolo::scan(comm, untyped(in), untyped(b), reduction::sum);
        expect(a == b, "scan");
        kolo::exclusive_scan(comm, in, a, kolo::sum);
        kolo::exclusive_scan(comm, untyped(in), untyped(b), reduction::sum);
        expect(comm.rank() == 0 || a == b, "exclusive_scan");
        kolo::allreduce(comm, in, a, kolo::sum, kolo::ring{});
        kolo::allreduce(comm, untyped(in), untyped(b), reduction::sum, kolo::ring{},
                        {.timeout = std::chrono::seconds{20}});
        expect(a == b, "ring");
      });
      CHECK(wrong == "");
    }
}

TEST_CASE("untyped: collectives that only move, with elements of three bytes") {
  for (const int p : {1, 2, 3}) {
    const auto wrong = on_ranks(p, [](auto& comm, auto expect) {
      const auto size = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
      constexpr std::size_t n = 5, each = 3;
      const auto bytes = [](std::size_t count, std::size_t first) {
        std::vector<unsigned char> x(each * count);
        std::iota(x.begin(), x.end(), static_cast<unsigned char>(first));
        return x;
      };
      const auto view = [](auto& x) { return elements{x.data(), x.size() / each, each}; };
      auto in = bytes(n, 40 * me), out = bytes(n * size, 0);
      const auto is = [&](std::size_t r, std::size_t count) {
        return std::equal(out.begin() + static_cast<long>(each * r * n),
                          out.begin() + static_cast<long>(each * (r * n + count)), bytes(n, 40 * r).begin());
      };
      kolo::allgather(comm, view(std::as_const(in)), view(out));
      for (std::size_t r = 0; r < size; ++r) expect(is(r, n), "allgather");
      kolo::broadcast(comm, view(in), 0);
      expect(in == bytes(n, 0), "broadcast");
      in = bytes(n, 40 * me);
      std::fill(out.begin(), out.end(), static_cast<unsigned char>(0));
      kolo::gather(comm, view(in), view(out), 0);
      for (std::size_t r = 0; r < size && me == 0; ++r) expect(is(r, n), "gather");
      kolo::scatter(comm, view(out), view(in), 0);
      expect(in == bytes(n, 40 * me), "scatter");
      auto sent = bytes(size, 10 * me), came = bytes(size, 0);
      kolo::alltoall(comm, view(sent), view(came));
      for (std::size_t r = 0; r < size; ++r) expect(came[each * r] == 10 * r + each * me, "alltoall");
      std::vector<int> counts;
      for (std::size_t r = 0; r < size; ++r) counts.push_back(static_cast<int>(r + 1));
      auto part = bytes(me + 1, 40 * me), all = bytes(size * (size + 1) / 2, 0);
      kolo::allgather(comm, view(part), view(all), counts);
      for (std::size_t r = 0; r < size; ++r) expect(all[each * (r * (r + 1) / 2)] == 40 * r, "ragged allgather");
    });
    CHECK(wrong == "");
  }
}

TEST_CASE("untyped: started and planned calls") {
  const auto wrong = on_ranks(2, [](auto& comm, auto expect) {
    auto x = of(comm.rank(), 100), y = of(comm.rank(), 100);
    vector z(100);
    auto request = kolo::start_allreduce(comm, untyped(x), reduction::sum);
    kolo::allreduce(comm, y, kolo::sum);
    request.wait();
    expect(x == y, "started");
    auto plan = kolo::plan_reduce(comm, untyped(y), untyped(z), reduction::min, 0);
    for (int i = 0; i < 3; ++i) plan.run();
    expect(comm.rank() != 0 || z == y, "planned");
  });
  CHECK(wrong == "");
}

TEST_CASE("untyped: a user's kernel combines in the order of the ranks") {
  for (const int p : {1, 2, 3, 4})
    for (const std::size_t n : {1u, 3000u}) {
      const auto wrong = on_ranks(p, [n](auto& comm, auto expect) {
        const auto at = [](int rank, std::size_t i) {
          return affine{2u * static_cast<unsigned>(rank) + 3, static_cast<unsigned>(i) + 7};
        };
        std::vector<affine> in, out(n), wanted;
        for (std::size_t i = 0; i < n; ++i) {
          in.push_back(at(comm.rank(), i));
          affine f = at(0, i);
          for (int r = 1; r < comm.size(); ++r) f = {f.a * at(r, i).a, f.b * at(r, i).a + at(r, i).b};
          wanted.push_back(f);
        }
        const kolo::block_function by{sizeof(affine), &compose};  // not declared commutative
        const elements from{in.data(), n, sizeof(affine)}, to{out.data(), n, sizeof(affine)};
        kolo::allreduce(comm, from, to, kolo::by_kernel<false>{by.kernel()});
        expect(out == wanted, "allreduce");
        std::fill(out.begin(), out.end(), affine{});
        kolo::allreduce(comm, from, to, kolo::by_kernel<false>{by.kernel()}, kolo::recursive_doubling{});
        expect(out == wanted, "allreduce in rounds");
        std::fill(out.begin(), out.end(), affine{});
        kolo::reduce(comm, from, to, kolo::by_kernel<false>{by.kernel()}, comm.size() - 1);
        expect(comm.rank() + 1 != comm.size() || out == wanted, "reduce");
      });
      CHECK(wrong == "");
    }
}

TEST_CASE("reduce_scatter of ragged blocks, typed and untyped") {
  for (const int p : {1, 2, 3, 4})
    for (const std::size_t unit : {1u, 5000u}) {
      const auto wrong = on_ranks(p, [unit](auto& comm, auto expect) {
        const auto size = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
        std::vector<std::size_t> counts;
        for (std::size_t r = 0; r < size; ++r) counts.push_back((r + 2) % size * unit);  // one rank has no elements
        const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        const auto first = std::accumulate(counts.begin(), counts.begin() + static_cast<long>(me), std::size_t{0});
        vector in(total), a(counts[me]), b(counts[me]);
        for (std::size_t i = 0; i < total; ++i) in[i] = static_cast<float>(comm.rank() + 1);
        kolo::reduce_scatter(comm, in, a, counts, kolo::sum);
        kolo::reduce_scatter(comm, untyped(in), untyped(b), counts, reduction::sum, kolo::ring{});
        const auto wanted = static_cast<float>(size * (size + 1) / 2);
        expect(std::all_of(a.begin(), a.end(), [&](float v) { return v == wanted; }) && a == b, "sum");
        for (std::size_t i = 0; i < total; ++i) in[i] = static_cast<float>(i);
        kolo::reduce_scatter(comm, untyped(in), untyped(b), counts, reduction::max);
        for (std::size_t i = 0; i < b.size(); ++i) expect(b[i] == static_cast<float>(first + i), "block");
      });
      CHECK(wrong == "");
    }
  CHECK(contains(sentence([](auto& comm) {
                   vector in(3), out(3);
                   kolo::reduce_scatter(comm, in, out, std::vector{2}, kolo::sum);
                 }),
                 "in has 3 elements, and the counts add up to 2"));
  CHECK(contains(sentence([](auto& comm) {
                   vector in(3), out(2);
                   kolo::reduce_scatter(comm, in, out, std::vector{3}, kolo::sum);
                 }),
                 "out has 2 elements, and this rank's count is 3"));
}

TEST_CASE("untyped: types, operators and kernels that do not match are refused") {
  vector x(4), y(4);
  const auto refused = [&](auto in, auto out, auto op) {
    return sentence([&](auto& comm) { kolo::allreduce(comm, in, out, op); });
  };
  const elements doubles{y.data(), 4, element_type::float64}, opaque{x.data(), 4, std::size_t{4}};
  CHECK(contains(refused(untyped(x), doubles, reduction::sum), "in and out have elements of different types"));
  CHECK(contains(refused(untyped(x), opaque, reduction::sum), "in and out have elements of different types"));
  CHECK(contains(refused(opaque, opaque, reduction::sum), "not defined on elements of this type"));
  CHECK(contains(refused(untyped(x), untyped(y), reduction::bit_and), "not defined on elements of this type"));
  const elements nothing{x.data(), 4, std::size_t{0}};
  CHECK(contains(sentence([&](auto& comm) { kolo::broadcast(comm, nothing, 0); }), "an element has no bytes"));
  const elements many{x.data(), std::size_t{1} << 60, std::size_t{16}};
  CHECK(contains(sentence([&](auto& comm) { kolo::broadcast(comm, many, 0); }), "more bytes than can be counted"));
  const kolo::block_function by{8, &compose, false};
  CHECK(
      contains(refused(opaque, opaque, kolo::by_kernel{by.kernel()}), "the kernel combines elements of another size"));
  CHECK(contains(refused(opaque, opaque, kolo::by_kernel{kolo::kernel{.element_bytes = 4}}), "or none"));
  const kolo::block_function commuting{4, &compose, true};
  CHECK(contains(refused(opaque, opaque, kolo::by_kernel<false>{commuting.kernel()}),
                 "by_kernel<false> does not commute"));
  CHECK(refused(opaque, opaque, kolo::by_kernel{commuting.kernel()}).empty());
  CHECK(contains(sentence([&](auto& comm) { kolo::scan(comm, untyped(x), untyped(y), reduction::average); }),
                 "a scan has no average"));
}

TEST_CASE("untyped: ranks whose types or operators differ get an error") {
  const auto ends = [](bool checked, auto call) {
    return on_threads(2, [&](auto& comm) { return words_of([&] { call(comm); }); },
                      {.timeout = std::chrono::seconds{20}, .checked = checked});
  };
  const auto types = [](auto& comm) {
    int x[2]{};
    kolo::allreduce(comm, elements{x, 2, comm.rank() == 0 ? element_type::int32 : element_type::uint32},
                    reduction::sum);
  };
  const auto operators = [](auto& comm) {
    int x[2]{};
    kolo::allreduce(comm, elements{x, 2, element_type::int32}, comm.rank() == 0 ? reduction::sum : reduction::max);
  };
  const auto numbers = [](auto& comm) {
    affine x[2]{};
    const kolo::block_function by{sizeof(affine), &compose};
    kolo::allreduce(comm, elements{x, 2, sizeof(affine)}, kolo::by_kernel{by.kernel(), comm.rank() == 0 ? 1u : 2u});
  };
  for (const auto& said : ends(false, types)) CHECK(!said.empty());
  for (const auto& said : ends(false, operators)) CHECK(!said.empty());
  for (const auto& said : ends(false, numbers)) CHECK(!said.empty());
  for (const auto& said : ends(true, types)) {
    CHECK(contains(said, "the type differs"));
    CHECK((contains(said, "of 2 int32, sum") && contains(said, "of 2 uint32, sum")));
  }
  for (const auto& said : ends(true, operators))
    CHECK((contains(said, "the operator differs") && contains(said, "max")));
  for (const auto& said : ends(true, numbers)) CHECK(contains(said, "the operator differs"));
}

TEST_CASE("untyped: elements whose sizes differ by 16 MiB are distinguished") {
  constexpr std::size_t shorter = 1024, longer = (std::size_t{16} << 20) + shorter;
  const auto run = [](auto call, bool checked) {
    return on_threads(2,
                      [&](auto& comm) {
                        std::vector<char> x(longer, comm.rank() == 0 ? 'x' : '-');
                        return words_of([&] { call(comm, x); });
                      },
                      {.timeout = std::chrono::seconds{20}, .slot_bytes = std::size_t{32} << 20, .checked = checked});
  };
  const auto broadcast = [](auto& comm, std::vector<char>& x, std::size_t bytes) {
    kolo::broadcast(comm, elements{x.data(), 1, bytes}, 0);
    if (x[bytes - 1] != 'x') throw kolo::error{kolo::errc::mismatch, "the end has not come"};
  };
  const auto one_by_one = [&](auto& comm, auto& x) { broadcast(comm, x, shorter), broadcast(comm, x, longer); };
  CHECK(run(one_by_one, false) == all_say(2, ""));
  const auto none_at_once = [&](auto& comm, auto& x) {
    kolo::broadcast(comm, elements{x.data(), 0, comm.rank() == 0 ? shorter : longer}, 0);
    kolo::barrier(comm);
  };
  for (const auto& said : run(none_at_once, true)) CHECK(contains(said, "the type differs"));
  for (const auto& said : run(none_at_once, false)) CHECK(contains(said, "another count, type"));
}
