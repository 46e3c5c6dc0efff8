// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LightGBM's two functions, called as LightGBM calls them, with a reducer of the test.
#include <kolo/adapt/lightgbm.hpp>

#include <chrono>
#include <cstring>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

using length = std::int32_t;
using reducer = void (*)(const char*, char*, int, length);
using reduce_scatter = void (*)(char*, length, int, const length*, const length*, int, char*, length, const reducer&);
using allgather = void (*)(char*, length, const length*, const length*, int, char*, length);

/// An entry of a histogram: two doubles, of which LightGBM passes the bytes.
struct entry {
  double gradient, hessian;
};

void add(const char* in, char* inout, int size, length bytes) {
  for (length at = 0; at < bytes; at += size) {
    entry a, b;
    std::memcpy(&a, in + at, sizeof a);
    std::memcpy(&b, inout + at, sizeof b);
    b = {a.gradient + b.gradient, a.hessian + b.hessian};
    std::memcpy(inout + at, &b, sizeof b);
  }
}

/// Adjacent blocks of `counts` elements of `size` bytes.
struct blocks {
  std::vector<length> first{}, bytes{};
  length all = 0;
  blocks(const std::vector<int>& counts, std::size_t size) {
    for (const int n : counts) {
      first.push_back(all);
      bytes.push_back(n * static_cast<length>(size));
      all += bytes.back();
    }
  }
};

char* bytes_of(auto* x) { return reinterpret_cast<char*>(x); }

template <class Comm>
void reduce(Comm&, std::vector<entry>& in, const blocks& b, std::vector<entry>& out) {
  const reducer by = &add;
  reinterpret_cast<reduce_scatter>(kolo::lightgbm_network<Comm>::reduce_scatter())(
      bytes_of(in.data()), b.all, sizeof(entry), b.first.data(), b.bytes.data(), static_cast<int>(b.bytes.size()),
      bytes_of(out.data()), static_cast<length>(out.size() * sizeof(entry)), by);
}
template <class Comm>
void gather(Comm&, char* in, length own, const blocks& b, char* out) {
  reinterpret_cast<allgather>(kolo::lightgbm_network<Comm>::allgather())(in, own, b.first.data(), b.bytes.data(),
                                                                         static_cast<int>(b.bytes.size()), out, b.all);
}

/// Reduces blocks of `counts` entries and gathers them again: the whole sum on every rank. If `first`, the own block is at the beginning of the output, where
/// LightGBM's allreduce leaves it, and not apart.
template <class Comm>
std::string allreduce(Comm& comm, const std::vector<int>& counts, bool first) {
  const kolo::lightgbm_network network{comm};
  const blocks b{counts, sizeof(entry)};
  const auto n = static_cast<std::size_t>(b.all) / sizeof(entry);
  const auto own = b.bytes[static_cast<std::size_t>(comm.rank())];
  std::vector<entry> in, apart(n), all(n);
  for (std::size_t i = 0; i < n; ++i) in.push_back({double(i) * (comm.rank() + 1), double(comm.rank())});
  auto& out = first ? all : apart;
  reduce(comm, in, b, out);
  gather(comm, bytes_of(out.data()), own, b, bytes_of(all.data()));
  const int p = comm.size();
  for (std::size_t i = 0; i < n; ++i)
    if (all[i].gradient != double(i) * p * (p + 1) / 2 || all[i].hessian != p * (p - 1) / 2.0)
      return "entry " + std::to_string(i) + " is wrong";
  return "";
}

std::vector<std::string> nothing(int p) { return std::vector<std::string>(static_cast<std::size_t>(p)); }

}  // namespace

TEST_CASE("equal and ragged blocks, one of them empty, are summed") {
  for (const bool first : {false, true})
    for (const int unit : {1, 700}) {
      const auto with = [&](std::vector<int> counts) {
        for (int& n : counts) n *= unit;
        const auto p = static_cast<int>(counts.size());
        CHECK(on_threads(p, [&](auto& comm) { return allreduce(comm, counts, first); }) == nothing(p));
      };
      with({3, 3});
      with({3, 5});
      with({4, 4, 4});
      with({2, 0, 7});
      with({1, 2, 3, 4});
    }
}

TEST_CASE("LightGBM: invalid blocks, a call without a lightgbm_network, and a second network are refused") {
  const auto said = on_threads(1, [](auto& comm) {
    using network_type = kolo::lightgbm_network<std::remove_reference_t<decltype(comm)>>;
    std::vector<entry> x(4), y(4);
    const blocks good{{4}, sizeof(entry)}, two{{2, 2}, sizeof(entry)}, odd{{3}, 5};
    blocks gap = good;
    gap.first[0] = 1;
    std::string words = words_of([&] { reduce(comm, x, good, y); }) + "; ";
    const network_type network{comm};
    words += words_of([&] { network_type{comm}; }) + "; ";
    for (const blocks& bad : {two, odd, gap}) words += words_of([&] { reduce(comm, x, bad, y); }) + "; ";
    return words + words_of([&] { reduce(comm, x, good, y); });
  })[0];
  CHECK(said ==
        "kolo: this thread has no lightgbm_network; kolo: this thread has a lightgbm_network already; "
        "kolo: LightGBM has other blocks than there are ranks; kolo: LightGBM's blocks are not contiguous, or not of "
        "whole elements; kolo: LightGBM's blocks are "
        "not contiguous, or not of whole elements; ");
}

TEST_CASE("a rank that dies is named to LightGBM's caller") {
  const auto result = on_processes(3, [](auto& comm) {
    for (int i = 0;; ++i) {
      if (comm.rank() == 1 && i == 3) ::raise(SIGKILL);
      const auto begin = std::chrono::steady_clock::now();
      const auto words = words_of([&] { allreduce(comm, {2, 3, 4}, true); });
      const bool soon =
          std::chrono::steady_clock::now() - begin < std::chrono::seconds{30};  // a tenth of one, if nothing else runs
      if (!words.empty()) return words + (soon ? "" : ", late");
    }
  });
  for (const std::size_t r : {0u, 2u}) {
    INFO(result.said[r]);
    CHECK(result.said[r].find("rank 1") != std::string::npos);
    CHECK(!result.said[r].ends_with("late"));
  }
}
