// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in send, receive and exchange: order, sequence numbers, memory, tags, deadlines, and the text of a mismatch.
// built with others: ranks
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/send.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/observe/dump.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "support/expect.hpp"

namespace {

using namespace kolo;
using namespace std::chrono_literals;
using testing::expect, testing::good;

template <class First, class Second>
std::string words(First first, Second second, bool checked) {
  try {
    threads::run(2, [&](auto& comm) { comm.rank() == 0 ? first(comm) : second(comm); },
                 {.timeout = 5s, .checked = checked});
    return "";
  } catch (const error& e) {
    return e.what();
  }
}
void expect_words(const char* wanted, const std::string& got) {
  if (got.find(wanted) == got.npos) expect(false, got.c_str());
}

/// Three messages longer than all slots, both ways at once; first two of three ranks, then all.
template <class C>
void several(C& comm) {
  constexpr std::size_t n = 700;
  if (comm.rank() < 2) {
    std::vector<int> out[3], in[3];
    for (int k = 0; k < 3; ++k) out[k].assign(n, 10 * k + comm.rank()), in[k].assign(n, -1);
    const int peer = 1 - comm.rank();
    auto a = start_send(comm, out[0], peer, 1), b = start_send(comm, out[1], peer, 2),
         c = start_send(comm, out[2], peer, 3);
    auto d = start_receive(comm, in[0], peer, 1), e = start_receive(comm, in[1], peer, 2),
         f = start_receive(comm, in[2], peer, 3);
    f.wait(), e.wait(), d.wait(), c.wait(), b.wait(), a.wait();
    int there[]{comm.rank(), 10 + comm.rank()}, here[]{-1, -1};
    auto one = start_exchange(comm, std::span{there}.first(1), std::span{here}.first(1), peer);
    auto two = start_exchange(comm, std::span{there}.last(1), std::span{here}.last(1), peer);
    two.wait(), one.wait();
    expect(here[0] == peer && here[1] == 10 + peer, "two exchanges at once");
    in[1].assign(n, -1);
    auto message = comm.rank() == 0 ? start_send(comm, out[0], 1) : start_receive(comm, in[0], 0);
    auto after = start_exchange(comm, out[1], in[1], peer);  // the message uses one of its directions
    after.wait(), message.wait();
    for (int k = 0; k < 3; ++k) expect(in[k] == std::vector<int>(n, 10 * k + peer), "a wrong message");
  }
  std::vector<int> mine(n, comm.rank()), first(n), second(n);
  const int next = (comm.rank() + 1) % 3, last = (comm.rank() + 2) % 3;
  auto a = start_send(comm, mine, next), b = start_send(comm, mine, last);
  auto c = start_receive(comm, first, last), d = start_receive(comm, second, next);
  a.wait(), b.wait(), c.wait(), d.wait();
  expect(first == std::vector<int>(n, last) && second == std::vector<int>(n, next), "messages of two ranks at once");
  int x = 1, y = 0;
  allreduce(comm, std::span{&x, 1}, sum);
  expect(x == 3, "a sum");
  exchange(comm, std::span{&x, 1}, std::span{&y, 1}, comm.rank());
  expect(y == 3, "an exchange with itself");
}

/// A receive from a rank that does not send ends at its own deadline, after a receive with a later one.
template <class C>
void late(C& comm, std::atomic<bool>& over) {
  if (comm.rank() != 0) return over.wait(false);
  int x = 0, y = 0;
  auto first = start_receive(comm, std::span{&x, 1}, 1);
  try {
    receive(comm, std::span{&y, 1}, 2, {.timeout = 100ms});
    expect(false, "a receive without a send succeeded");
  } catch (const error& e) {
    expect(e.code() == errc::timeout && e.peer() == 2, e.what());
  }
  expect_words("rank 0 failed in receive #1, waiting for rank 1", dump(comm));
  over = true;
  over.notify_all();
}

}  // namespace

int main() {
  threads::run(3, [](auto& comm) { several(comm); }, {.timeout = 5s, .slot_bytes = 128});
  std::atomic<bool> over{false};
  try {
    threads::run(3, [&](auto& comm) { late(comm, over); }, {.timeout = 5s});
  } catch (const error& e) {
    expect(e.peer() == 2, e.what());
  }
  int x[4]{}, y[4]{};
  const auto sends = [&](int tag, std::size_t n) {
    return [&, tag, n](auto& comm) {
      kolo::send(comm, std::span{x, n}, 1, tag), kolo::send(comm, std::span{x, n}, 1, tag);
    };
  };
  const auto receives = [&](int tag, std::size_t n) {
    return [&, tag, n](auto& comm) { receive(comm, std::span{y, n}, 0, tag), receive(comm, std::span{y, n}, 0, tag); };
  };
  expect_words("has the tag 3, and not 4", words(sends(3, 4), receives(4, 4), false));
  const char one[1]{};
  char none[1]{};
  expect_words("or not as many", words([&](auto& comm) { kolo::send(comm, one, 1); },
                                       [&](auto& comm) {
                                         receive(comm, std::span{none, 0}, 0);
                                       },
                                       false));
  const auto receives_two = [&](auto& comm) {
    auto first = start_receive(comm, x, 1), second = start_receive(comm, y, 1);
    second.wait();
  };
  const auto adds = [](auto& comm) {
    int one = 1;
    allreduce(comm, std::span{&one, 1}, sum);
  };
  expect_words("rank 0 calls receive, rank 1 calls allreduce", words(receives_two, adds, false));
  expect_words("receive #1, rank 1: the tag differs", words(sends(3, 4), receives(4, 4), true));
  expect(words(sends(3, 4), receives(3, 4), true).empty(), "equal tags gave a mismatch");
  expect_words("receive #2", words(
                                 [&](auto& comm) {
                                   kolo::send(comm, std::span{x, 4}, 1), kolo::send(comm, std::span{x, 3}, 1);
                                 },
                                 receives(0, 4), true));
  return good ? 0 : 1;
}
