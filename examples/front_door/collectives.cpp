// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every collective with every list of arguments, and the result on each rank.
//
// The first function contains all calls; it runs on one rank, since only there all lengths may be equal. The other functions
// make each call on four ranks, with the lengths that it requires.
#include "expect.hpp"

#include <kolo/kolo.hpp>

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

using numbers = std::vector<double>;
using lengths = std::vector<std::size_t>;

void all_in_one_place(auto& comm) {
  const auto op = kolo::sum;
  const int root = 0, color = 0, key = 0;
  numbers x{1, 2, 3}, in{4, 5, 6}, out(3);
  const lengths counts{3}, send_counts{3}, receive_counts{3};
  // clang-format off
kolo::allreduce(comm, x, op);               kolo::allreduce(comm, in, out, op);      // in place; out of place
kolo::reduce_scatter(comm, in, out, op);    kolo::reduce_scatter(comm, in, out, counts, op);  // out: this rank's block of in, kolo::block(n, p, r); ragged
kolo::allgather(comm, in, out);             kolo::allgather(comm, in, out, counts);  // equal; ragged
kolo::broadcast(comm, x, root);
kolo::reduce(comm, in, out, op, root);      kolo::gather(comm, in, out, root);       kolo::scatter(comm, in, out, root);    // in/out may be empty where not significant
kolo::gather(comm, in, out, counts, root);  kolo::scatter(comm, in, out, counts, root);
kolo::alltoall(comm, in, out);              kolo::alltoall(comm, in, out, send_counts, receive_counts);
kolo::scan(comm, in, out, op);              kolo::exclusive_scan(comm, in, out, op);  kolo::barrier(comm);
comm.rank();  comm.size();  comm.local_rank();  comm.local_size();  comm.node_rank();  comm.node_count();  comm.split(color, key);
  // clang-format on
  expect(x == numbers{1, 2, 3} && out == in, "on one rank the output is the input");
}

/// The input of rank r: n numbers that differ from each other and from those of all other ranks.
numbers given(int r, std::size_t n) {
  numbers v(n);
  std::iota(v.begin(), v.end(), 100.0 * r);
  return v;
}

/// The sum of the inputs of ranks [0, ranks).
numbers total(int ranks, std::size_t n) {
  numbers v(n);
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) v[i] += given(r, n)[i];
  return v;
}

/// The concatenated inputs of all ranks.
numbers joined(const lengths& counts) {
  numbers v;
  for (std::size_t r = 0; r < counts.size(); ++r)
    for (double x : given(int(r), counts[r])) v.push_back(x);
  return v;
}

numbers piece(const numbers& v, std::size_t first, std::size_t count) {
  const auto from = v.begin() + std::ptrdiff_t(first);
  return {from, from + std::ptrdiff_t(count)};
}

void reductions(auto& comm) {
  const auto op = kolo::sum;
  const int r = comm.rank(), p = comm.size(), root = p - 1;
  const std::size_t n = 10;
  const numbers in = given(r, n);
  {
    numbers x = in, out(n);
    kolo::allreduce(comm, x, op);
    kolo::allreduce(comm, in, out, op);
    expect(x == total(p, n) && out == x, "allreduce: every rank has the sum");
  }
  {
    const kolo::extent mine = kolo::block(n, p, r);  // of 10 elements, 4 ranks have 3, 3, 2 and 2
    numbers out(mine.count);
    kolo::reduce_scatter(comm, in, out, op);
    expect(out == piece(total(p, n), mine.first, mine.count), "reduce_scatter: every rank has its block of the sum");
    const lengths counts{1, 0, 2, 7};
    numbers ragged(counts[std::size_t(r)]);
    kolo::reduce_scatter(comm, in, ragged, counts, op);
    const auto first = std::accumulate(counts.begin(), counts.begin() + r, std::size_t{0});
    expect(ragged == piece(total(p, n), first, ragged.size()), "ragged reduce_scatter");
  }
  {
    numbers out(r == root ? n : 0);  // may be empty where it is not significant
    kolo::reduce(comm, in, out, op, root);
    expect(r != root || out == total(p, n), "reduce: the root has the sum");
  }
  {
    numbers out(n);
    kolo::scan(comm, in, out, op);
    expect(out == total(r + 1, n), "scan: rank r has the sum of ranks 0 ... r");
    numbers before(n, -1);
    kolo::exclusive_scan(comm, in, before, op);
    expect(before == (r == 0 ? numbers(n, -1) : total(r, n)), "exclusive_scan: rank r has the sum of ranks 0 ... r-1");
  }
}

void movements(auto& comm) {
  const int r = comm.rank(), p = comm.size(), root = 1;
  const std::size_t n = 3;
  const lengths equal(std::size_t(p), n);
  const numbers in = given(r, n), all = joined(equal);
  {
    numbers x = in;
    kolo::broadcast(comm, x, root);
    expect(x == given(root, n), "broadcast: every rank has the root's values");
  }
  {
    numbers out(all.size());
    kolo::allgather(comm, in, out);
    expect(out == all, "allgather: every rank has all parts");
  }
  {
    numbers out(r == root ? all.size() : 0);
    kolo::gather(comm, in, out, root);
    expect(r != root || out == all, "gather: the root has all parts");
  }
  {
    numbers out(n);
    kolo::scatter(comm, r == root ? all : numbers{}, out, root);
    expect(out == in, "scatter: every rank has its part");
  }
  {
    numbers whole = given(r, n * std::size_t(p)), out(whole.size());
    kolo::alltoall(comm, whole, out);
    for (int from = 0; from < p; ++from)
      expect(piece(out, std::size_t(from) * n, n) == piece(given(from, whole.size()), std::size_t(r) * n, n),
             "alltoall: rank r has what every rank had for it");
  }
}

/// Parts of different lengths, one of them empty.
void ragged_movements(auto& comm) {
  const int r = comm.rank(), p = comm.size(), root = 2;
  const lengths counts{2, 0, 5, 1};
  const numbers in = given(r, counts[std::size_t(r)]), all = joined(counts);
  {
    numbers out(all.size());
    kolo::allgather(comm, in, out, counts);
    expect(out == all, "ragged allgather");
  }
  {
    numbers out(r == root ? all.size() : 0);
    kolo::gather(comm, in, out, counts, root);
    expect(r != root || out == all, "ragged gather");
  }
  {
    numbers out(in.size());
    kolo::scatter(comm, r == root ? all : numbers{}, out, counts, root);
    expect(out == in, "ragged scatter");
  }
  {
    lengths send_counts, receive_counts;  // rank r gets r numbers from each rank
    for (int s = 0; s < p; ++s) send_counts.push_back(std::size_t(s)), receive_counts.push_back(std::size_t(r));
    numbers whole = joined(send_counts), out(std::size_t(r * p)), expected;
    for (double& x : whole) x += 1000 * r;
    kolo::alltoall(comm, whole, out, send_counts, receive_counts);
    for (int from = 0; from < p; ++from)
      for (double x : given(r, std::size_t(r))) expected.push_back(x + 1000 * from);
    expect(out == expected, "ragged alltoall");
  }
}

/// Two nodes of two ranks each, and a communicator of each node's ranks in reversed order.
void where_we_are(auto& comm) {
  const int r = comm.rank();
  expect(comm.size() == 4 && comm.local_rank() == r % 2 && comm.local_size() == 2, "two ranks share a node");
  expect(comm.node_rank() == r / 2 && comm.node_count() == 2, "there are two nodes");

  auto node = comm.split(comm.node_rank(), -r);
  expect(node.size() == 2 && node.rank() == 1 - comm.local_rank(), "split orders by key");
  numbers x{double(r)};
  kolo::allreduce(node, x, kolo::sum);
  expect(x[0] == (r < 2 ? 1 : 5), "each node has its own sum");
  kolo::barrier(comm);
}

int main() {
  const auto each_by_itself = [](auto& comm) {
    reductions(comm);
    movements(comm);
    ragged_movements(comm);
    where_we_are(comm);
  };
  const int alone = kolo::shm::launch(1, [](auto& comm) { all_in_one_place(comm); });
  const int together = kolo::shm::launch(4, each_by_itself, {.ranks_per_node = 2});  // simulates two hosts
  if (alone != 0 || together != 0) return 1;
  std::puts("All collectives, equal and ragged, gave the right results on four ranks.");
}
