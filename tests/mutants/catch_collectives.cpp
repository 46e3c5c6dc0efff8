// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the executor and in the slots of threads: every collective on a few threads, cut into many pieces.
// built with others: ranks
#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/collective/gather.hpp>
#include <kolo/collective/permute.hpp>
#include <kolo/collective/reduce.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/collective/scan.hpp>
#include <kolo/collective/scatter.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/view/bucket.hpp>
#include <kolo/view/strided.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "support/expect.hpp"

namespace {

struct affine {  // x -> a x + b modulo 2^32: composition does not commute
  unsigned a, b;
  bool operator==(const affine&) const = default;
};
struct then {
  static constexpr bool commutative = false;
  affine operator()(affine f, affine g) const { return {f.a * g.a, f.b * g.a + g.b}; }
};
using vector = std::vector<affine>;

affine at(int rank, std::size_t i) { return {2u * static_cast<unsigned>(rank) + 3, static_cast<unsigned>(i) + 7}; }
vector of(int rank, std::size_t n, std::size_t first = 0) {
  vector x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(at(rank, first + i));
  return x;
}
vector combined(int ranks, std::size_t n, std::size_t first = 0) {
  vector x = of(0, n, first);
  for (int r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) x[i] = then{}(x[i], at(r, first + i));
  return x;
}
/// n elements of every rank; those of rank r begin at r * n.
vector joined(int ranks, std::size_t n) {
  vector all;
  for (int r = 0; r < ranks; ++r)
    for (const affine& f : of(r, n)) all.push_back(f);
  return all;
}

using testing::expect, testing::good;

void permutations(kolo::threads::communicator& comm, std::size_t n) {
  const int p = comm.size(), r = comm.rank();
  for (int distance = 0; distance < p; ++distance) {
    vector out(n);
    kolo::shift(comm, of(r, n), out, distance);
    expect(out == of((r + p - distance) % p, n));
  }
  vector out(n);
  constexpr auto most = ~0ULL;
  kolo::shift(comm, of(r, n), out, most);
  expect(out == of((r + p - static_cast<int>(most % static_cast<unsigned>(p))) % p, n));
}

void reductions(kolo::threads::communicator& comm, std::size_t n) {
  const int p = comm.size(), r = comm.rank(), root = p - 1;
  const auto in = of(r, n);
  auto x = in, y = in, z = in, scanned = vector(n), before = of(0, n), reduced = vector(n);
  kolo::allreduce(comm, x, then{}, kolo::recursive_doubling{});
  kolo::allreduce(comm, in, y, then{}, kolo::two_shot{});
  kolo::allreduce(comm, z, then{}, kolo::one_shot{});
  expect(x == combined(p, n) && y == x && z == x);
  std::vector<int> numbers(n, r + 1);
  kolo::allreduce(comm, numbers, kolo::sum, kolo::ring{});
  for (const int i : numbers) expect(i == p * (p + 1) / 2);
  std::vector<float> means(n);
  for (std::size_t i = 0; i < n; ++i) means[i] = static_cast<float>(i) + static_cast<float>(2 * r);
  kolo::allreduce(comm, means, kolo::average, kolo::ring{});
  for (std::size_t i = 0; i < n; ++i) expect(means[i] == static_cast<float>(i) + static_cast<float>(p - 1));
  std::vector<int> sums(n);
  kolo::reduce(comm, numbers, sums, kolo::sum, root, kolo::two_shot{});
  for (const int i : sums) expect(i == (r == root ? p * p * (p + 1) / 2 : 0));
  const auto mine = kolo::block(n, p, r);
  std::vector<float> many(n), block(mine.count);
  for (std::size_t i = 0; i < n; ++i) many[i] = static_cast<float>(i) + static_cast<float>(r);
  kolo::reduce_scatter(comm, many, block, kolo::average, kolo::circulant{});
  for (std::size_t i = 0; i < mine.count; ++i)
    expect(block[i] == static_cast<float>(mine.first + i) + static_cast<float>(p - 1) / 2);
  kolo::reduce(comm, in, reduced, then{}, root);
  expect(r != root || reduced == combined(p, n));
  kolo::scan(comm, in, scanned, then{});
  kolo::exclusive_scan(comm, in, before, then{}, kolo::chain{.segments = 5});
  expect(scanned == combined(r + 1, n) && before == (r == 0 ? in : combined(r, n)));
}

void movements(kolo::threads::communicator& comm, std::size_t n) {
  const int p = comm.size(), r = comm.rank(), root = p - 1;
  const auto size = static_cast<std::size_t>(p);
  const auto in = of(r, n);
  auto x = in, there = in;
  kolo::broadcast(comm, x, root, kolo::chain{.segments = 3});
  expect(x == of(root, n));
  for (const std::size_t length : {n, std::size_t{20}}) {  // also in a few pieces
    x = of(r, length);
    kolo::broadcast(comm, x, root, kolo::one_shot{});
    expect(x == of(root, length));
  }
  vector all(n * size), turned(n * size), whole(n * size);
  vector apart(2 * n);
  for (std::size_t i = 0; i < n; ++i) apart[2 * i] = in[i];
  kolo::allgather(comm, kolo::strided<const affine, 2>{apart.data(), {n, 1}, {2, 1}}, all, kolo::circulant{});
  expect(all == joined(p, n));
  const auto few = std::min(n, std::size_t{3});
  const vector first = of(r, few), rest = of(r, n - few, few);
  if (r % 2 == 0) kolo::allgather(comm, kolo::bucket{first, rest}, whole, kolo::one_shot{});
  else kolo::allgather(comm, in, whole, kolo::one_shot{});  // the peers also reference its first piece
  expect(whole == all);
  kolo::gather(comm, in, whole, root, kolo::binomial{});
  expect(r != root || whole == all);
  kolo::scatter(comm, whole, there, root, kolo::binomial{});
  expect(there == in);
  kolo::alltoall(comm, all, turned);
  for (int q = 0; q < p; ++q)
    for (std::size_t i = 0; i < n; ++i)
      expect(turned[static_cast<std::size_t>(q) * n + i] == all[static_cast<std::size_t>(r) * n + i]);
  std::vector<std::size_t> counts(size, n);
  counts[0] = 0;
  vector ragged(n * (size - 1));
  kolo::allgather(comm, of(r, counts[static_cast<std::size_t>(r)]), ragged, counts);
  expect(p == 1 || (ragged.front() == at(1, 0) && ragged.back() == at(p - 1, n - 1)));
}

/// A rank that has prepared to wait is woken by the next notification, before its timeout.
void eventcounts() {
  kolo::detail::os::eventcount eventcount;
  const kolo::detail::os::eventcount::shared_choice waiters_fence{0};
  std::atomic<bool> armed{false};
  std::jthread sleeper{[&] {
    const auto start = std::chrono::steady_clock::now();
    const auto epoch = eventcount.prepare_wait(waiters_fence);
    armed = true;
    eventcount.wait(epoch, std::chrono::seconds{10});
    expect(std::chrono::steady_clock::now() - start < std::chrono::seconds{10});
  }};
  while (!armed) std::this_thread::yield();
  eventcount.notify();
}

/// No rank passes a barrier before all ranks have called it.
void barriers(kolo::threads::communicator& comm, std::atomic<int>& come) {
  for (int k = 1; k <= 20; ++k) {
    ++come;
    kolo::barrier(comm);
    expect(come >= k * comm.size());
    kolo::barrier(comm);
  }
}

/// Two ranks exchange all of their eight blocks in one round: more blocks than slots.
struct exchange {
  static constexpr auto collective = kolo::kind::allreduce;
  static constexpr int blocks(int) { return 8; }
  static constexpr int rounds(int) { return 1; }
  static constexpr kolo::step at(int r, int, int) {
    return kolo::transfer{
        .to = 1 - r, .send = {0, 8}, .from = 1 - r, .receive = {0, 8}, .then = kolo::arrival::in_rank_order};
  }
};

/// The test acts as rank 1, which sends everything and receives nothing: what rank 0 has not sent yet must not change.
template <class Algorithm>
void slow_peer(const Algorithm& algorithm, bool in_place = true) {
  kolo::detail::shm::region_shape shape;
  shape.ranks = 2;
  shape.lines = shape.slots;
  shape.slot_bytes = sizeof(int);
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::communicator comm{memory, region, shape, 0};
  kolo::threads::transport peer{memory, region, shape, 1};
  std::vector<int> x(8, 5), y(8);
  auto request = kolo::start_allreduce(comm, x, in_place ? x : y, kolo::sum, algorithm);
  request.test();
  const auto tag = peer.peek(0).tag;
  for (int sent = 0; sent < 8; request.test())
    for (; sent < 8 && peer.reserve(0); ++sent) {
      std::memset(peer.reserve(0), 1, sizeof(int));
      peer.commit(0, sizeof(int), tag);
    }
  for (int taken = 0; taken < 8; ++taken) {
    expect(!request.test() || taken >= 4);  // four slots, and eight pieces
    int theirs = 0;
    if (peer.peek(0).data) std::memcpy(&theirs, peer.claim(0).data, sizeof theirs);
    expect(theirs == 5);
    peer.release(0);
  }
  expect(request.test());
}

/// Two ranks on this thread: they exchange few elements, or one sends more; and rank 0 has some for itself.
void unequal_parts(std::size_t there, std::size_t back) {
  const kolo::detail::shm::region_shape shape{2, {.slot_bytes = 64}};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::communicator first{memory, region, shape, 0}, second{memory, region, shape, 1};
  const std::vector<std::size_t> from_first{17, there}, to_first{17, back}, from_second{back, 0}, to_second{there, 0};
  std::vector<int> in(17 + there, 3), out(17 + back), other_in(back, 4), other_out(there);
  auto a = kolo::start_alltoall(first, in, out, from_first, to_first, kolo::one_shot{});
  auto b = kolo::start_alltoall(second, other_in, other_out, from_second, to_second, kolo::one_shot{});
  bool is_done = false;
  for (int k = 0; k < 100 && !is_done; ++k) is_done = a.test() & b.test();
  expect(is_done && out.back() == 4 && other_out == std::vector<int>(there, 3));
  if (!is_done) first.transport().fail({});  // so that no rank waits
}

/// The test acts as rank 0 of five, which has no elements: the others must not go on to the next post before rank 0 has made its own.
void who_has_nothing_is_waited_for() {
  constexpr int p = 5, posts = 3;
  const kolo::detail::shm::region_shape shape{p, {.slot_bytes = 64}};
  kolo::detail::shm::private_mapping memory;
  const auto region = kolo::threads::transport::initialise(memory, shape);
  kolo::threads::transport first{memory, region, shape, 0};
  const std::vector<std::size_t> counts{0, 40, 40, 40, 40};
  std::vector<kolo::threads::communicator> others;
  std::vector<kolo::request<kolo::threads::transport>> calls;
  const std::vector<int> in(40, 3);
  std::vector<std::vector<int>> out(p - 1, std::vector<int>(160));
  for (int r = 1; r < p; ++r) others.emplace_back(memory, region, shape, r);
  for (std::size_t r = 0; r < out.size(); ++r)
    calls.push_back(kolo::start_allgather(others[r], in, out[r], counts, kolo::one_shot{}));
  const auto are_done = [&] {
    std::size_t done = 0;
    for (int k = 0; k < 10; ++k) {
      done = 0;
      for (auto& call : calls) done += call.test() ? 1u : 0u;
    }
    return done == calls.size();
  };
  for (int post = 0; post < posts; ++post) {
    expect(!are_done());
    int behind = 0;
    expect(first.reserve_board(0, behind) != nullptr);
    first.post_on_board(0, first.peek_board(1).tag);
    are_done();
    first.end_board(true);
  }
  const bool done = are_done();
  expect(done && out == std::vector(out.size(), std::vector<int>(160, 3)));
  if (!done) first.fail({});  // so that no rank waits
}

void groups(kolo::threads::communicator& comm) {
  auto half = comm.split(comm.rank() % 2, -comm.rank());
  const int first = comm.rank() % 2, members = (comm.size() - first + 1) / 2;
  expect(half.size() == members && half.rank() == members - 1 - comm.rank() / 2);
  int x = comm.rank();
  kolo::allreduce(half, std::span{&x, 1}, kolo::max);
  expect(x == first + 2 * (members - 1));
}

}  // namespace

int main() {
  eventcounts();
  unequal_parts(10, 10);
  unequal_parts(10, 20);
  who_has_nothing_is_waited_for();
  for (int p = 1; p <= 5 && good; ++p) {
    std::atomic<int> come{0};
    kolo::threads::run(p, [&](auto& comm) { barriers(comm, come); }, {.timeout = std::chrono::seconds{5}});
  }
  for (int p = 1; p <= 5 && good; ++p)
    for (const std::size_t slot_bytes : {std::size_t{64}, std::size_t{64 * 1024}})
      kolo::threads::run(
          p,
          [&](auto& comm) {
            for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{33}, std::size_t{1001}})
              permutations(comm, n), reductions(comm, n), movements(comm, n);
            groups(comm);
          },
          {.timeout = std::chrono::seconds{5}, .slot_bytes = slot_bytes});
  slow_peer(exchange{});
  slow_peer(kolo::one_shot{});
  slow_peer(kolo::one_shot{}, false);
  return good ? 0 : 1;
}
