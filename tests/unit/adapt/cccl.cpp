// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A communicator with the interface of CCCL's algorithms, called as they call it; and their concept, if those headers are installed.
#include <kolo/adapt/cccl.hpp>

#include <functional>
#include <vector>

#if __has_include(<cuda/experimental/__multi_gpu/concepts.h>)
#include <cuda/experimental/__multi_gpu/concepts.h>
#endif

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/ends.hpp"

using namespace testing;

namespace {

struct no_stream {
  void* get() const { return nullptr; }
};

#if __has_include(<cuda/experimental/__multi_gpu/concepts.h>)
using as_cccl_wants_it = kolo::cccl_communicator<kolo::threads::communicator>;
static_assert(cuda::experimental::__communicator<as_cccl_wants_it>);
static_assert(cuda::experimental::__has_all_reduce<as_cccl_wants_it> &&
              cuda::experimental::__has_reduce<as_cccl_wants_it> &&
              cuda::experimental::__has_gather<as_cccl_wants_it> &&
              cuda::experimental::__has_all_gather<as_cccl_wants_it> &&
              cuda::experimental::__has_broadcast<as_cccl_wants_it> &&
              cuda::experimental::__has_all_to_all<as_cccl_wants_it> &&
              cuda::experimental::__has_all_gather_v<as_cccl_wants_it> &&
              cuda::experimental::__has_all_to_all_v<as_cccl_wants_it>);
#endif

}  // namespace

TEST_CASE("cccl: messages under one guard proceed together, in any order on the peers") {
  for (const int p : {1, 2, 3, 4})
    CHECK(on_threads(p, [](auto& comm) -> std::string {
            const kolo::cccl_communicator c{comm};
            const int me = c.rank(), n = c.size();
            std::vector<int> mine{me, 10 * me}, from(2 * static_cast<std::size_t>(n), -1), expected = from;
            {
              auto guard = c.group_guard();
              for (int r = 0; r < n; ++r) {  // every rank sends first, to all
                if (r == me) continue;
                const auto at = 2 * static_cast<std::size_t>(r);
                c.send(guard, static_cast<const void*>(mine.data()), 2 * sizeof(int), r, no_stream{});
                c.recv(guard, from.data() + at, 2, r, no_stream{});
                expected[at] = r, expected[at + 1] = 10 * r;
              }
            }
            return from == expected ? "" : "another one's numbers";
          }) == all_say(p, ""));
}

TEST_CASE("cccl: collectives, several under one guard") {
  for (const int p : {1, 2, 3, 4})
    CHECK(on_threads(p, [](auto& comm) -> std::string {
            const kolo::cccl_communicator c{comm};
            const int me = c.rank(), n = c.size(), all = n * (n - 1) / 2, root = n - 1;
            const auto size = static_cast<std::size_t>(n);
            const int mine = me;
            int sum = -1, largest = -1, word = me == root ? 7 : -1;
            std::vector<int> gathered(size, -1), on_root(size, -1), ranks(size), to_each(size, 100 * me),
                from_each(size);
            for (int r = 0; r < n; ++r) ranks[static_cast<std::size_t>(r)] = r;
            auto guard = c.group_guard();
            c.all_reduce(guard, &mine, &sum, 1, std::plus<>{}, no_stream{});
            c.reduce(
                guard, &mine, &largest, 1, [](int a, int b) { return a < b ? b : a; }, root, no_stream{});
            c.all_gather(guard, &mine, gathered.data(), 1, no_stream{});
            c.gather(guard, &mine, on_root.data(), 1, root, no_stream{});
            c.broadcast(guard, static_cast<const int*>(&word), &word, 1, root, no_stream{});
            c.all_to_all(guard, to_each.data(), from_each.data(), 1, no_stream{});
            guard.wait();
            for (int r = 0; r < n; ++r)
              if (from_each[static_cast<std::size_t>(r)] != 100 * r) return "all_to_all";
            if (me == root && (largest != n - 1 || on_root != ranks)) return "at the root";
            return sum == all && gathered == ranks && word == 7 ? "" : "a collective";
          }) == all_say(p, ""));
}

TEST_CASE("cccl: parts of different lengths, with gaps between them; a rank's own part may be in place") {
  for (const int p : {1, 2, 3, 4})
    CHECK(on_threads(p, [](auto& comm) -> std::string {
            const kolo::cccl_communicator c{comm, 5};  // CCCL's logical device, for which any type stands here
            if (c.logical_device() != 5) return "another device";
            const auto me = static_cast<std::size_t>(c.rank()), n = static_cast<std::size_t>(c.size());
            std::vector<std::size_t> counts(n), at(n), to_each(n), from_each(n), sent_at(n), received_at(n);
            std::vector<int> gathered(10 * n, -1), expected = gathered, apart = gathered, sent(10 * n, -2),
                                                   received = gathered, all = gathered;
            for (std::size_t r = 0; r < n; ++r) {
              counts[r] = r, at[r] = 10 * (n - 1 - r);   // rank 0 gives nothing, and the last part comes first
              to_each[r] = me + r, sent_at[r] = 10 * r;  // rank 0 sends itself nothing
              from_each[r] = r + me, received_at[r] = at[r];
              for (std::size_t i = 0; i < r; ++i) expected[at[r] + i] = static_cast<int>(100 * r + i);
              for (std::size_t i = 0; i < me + r; ++i) {
                sent[sent_at[r] + i] = static_cast<int>(1000 * me + 100 * r + i);
                all[at[r] + i] = static_cast<int>(1000 * r + 100 * me + i);
              }
            }
            for (std::size_t i = 0; i < me; ++i) gathered[at[me] + i] = expected[at[me] + i];
            const auto mine = gathered;
            auto guard = c.group_guard();
            c.all_gather_v(guard, gathered.data() + at[me], me, gathered.data(), counts.data(), at.data(), no_stream{});
            c.all_gather_v(guard, mine.data() + at[me], me, apart.data(), counts.data(), at.data(), no_stream{});
            c.all_to_all_v(guard, sent.data(), to_each.data(), sent_at.data(), received.data(), from_each.data(),
                           received_at.data(), no_stream{});
            guard.wait();
            if (gathered != expected) return "in place";
            if (apart != expected) return "into another buffer";
            if (received != all) return "to each";
            return "";
          }) == all_say(p, ""));
}

TEST_CASE("cccl: a message of a rank to itself, or a collective beside messages, is refused before any rank waits") {
  CHECK(on_threads(2, [](auto& comm) -> std::string {
          const kolo::cccl_communicator c{comm};
          const int me = c.rank(), mine = me;
          int other = -1;
          auto guard = c.group_guard();
          if (words_of([&] { c.send(guard, &mine, 1, me, no_stream{}); }).find("with itself") == std::string::npos ||
              words_of([&] { c.recv(guard, &other, 1, me, no_stream{}); }).find("with itself") == std::string::npos)
            return "a message to itself";
          c.send(guard, &mine, 1, 1 - me, no_stream{});
          int sum = -1;
          const auto words = words_of([&] { c.all_reduce(guard, &mine, &sum, 1, std::plus<>{}, no_stream{}); });
          if (words.find("under a guard of its own") == std::string::npos) return "both under one guard: " + words;
          c.recv(guard, &other, 1, 1 - me, no_stream{});
          guard.wait();
          c.all_reduce(guard, &mine, &sum, 1, std::plus<>{}, no_stream{});  // the guard can be used again
          guard.wait();
          return other == 1 - me && sum == 1 ? "" : "another one's number";
        }) == all_say(2, ""));
}
