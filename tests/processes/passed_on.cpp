// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with several communicators: one fails, its exception destroys another, and the ranks that wait in the other get an error that names the failed rank.
#include <array>
#include <atomic>
#include <latch>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

/// Fails the communicator by an invalid call of this rank only, and continues.
template <class C>
void fail_here(C& comm) {
  int x[1]{};
  end_of([&] { kolo::broadcast(comm, x, comm.size() + 1); });
}

/// The failure of `failing` destroys this rank's `other`.
const auto is_unwound = [](auto& failing, auto other) {
  auto destroyed = std::move(other);
  kolo::barrier(failing);
};

/// The last rank fails in a communicator of all ranks, where it is rank 0. The ranks in between get the error there and call `leave(failing, other)`. Rank 0
/// waits in `other`, where rank r is (r + 2) % p, and so does the last rank, if it is a member.
template <class C, class Describe, class Leave>
std::string error_in_other(C& comm, bool has_the_last, Describe describe, Leave leave) {
  const int p = comm.size(), r = comm.rank(), last = p - 1;
  auto failing = comm.split(0, -r);
  auto other = comm.split(r != last || has_the_last ? 0 : 1, (r + 2) % p);
  if (r == last) fail_here(failing);
  if (r == last && !has_the_last) return "";
  while (r == last && !other.transport().failed()) std::this_thread::yield();
  if (r == last || r == 0) return describe([&] { kolo::barrier(other); });
  try {
    leave(failing, std::move(other));
  } catch (const std::exception&) {
  }
  return "";
}
const auto end = [](auto call) { return end_of(call); };
const auto words = [](auto call) { return words_of(call); };

/// Runs `f` on threads and on processes.
template <class F>
void expect(int p, F f, const std::vector<std::string>& right) {
  CHECK(on_threads(p, f) == right);
  const auto in_processes = on_processes(p, f);
  CHECK(in_processes.said == right);
  CHECK(in_processes.clean);
}
std::vector<std::string> first_and_last(int p, const std::string& first, const std::string& last) {
  auto said = all_say(p, "");
  said.front() = first;
  said.back() = last;
  return said;
}

template <class Leave>
void expect_blame(Leave leave, const std::string& blame, int times = 1) {
  for (const int p : {3, 4, 7})
    for (int k = 0; k < times; ++k)
      expect(
          p, [&](auto& comm) { return error_in_other(comm, true, end, leave); }, first_and_last(p, blame, blame));
}

}  // namespace

TEST_CASE("unwound by another communicator's failure: the failed rank is named") {
  expect_blame(is_unwound, "peer failed 1", 5);
}

TEST_CASE("unwound by another communicator's failure with a request in flight: the failed rank is named") {
  expect_blame(
      [](auto& failing, auto other) {
        auto destroyed = std::move(other);
        const auto started = kolo::start_barrier(destroyed);
        kolo::barrier(failing);
      },
      "peer failed 1");
}

TEST_CASE("unwound by another communicator's failure: the error maps the rank numbers of the two") {
  const auto leave = [](auto& failing, auto other) {
    const auto of_rank_0 = other.transport().recorder(other.size() - 1);
    while (!of_rank_0->last().waits()) std::this_thread::yield();  // a later call would get the error without its place
    is_unwound(failing, std::move(other));
  };
  for (const bool has_the_last : {true, false}) {
    const auto said = on_threads(3, [&](auto& comm) { return error_in_other(comm, has_the_last, words, leave); });
    const std::string numbers = has_the_last ? ", where rank 1 is rank 0" : " (ranks as they are numbered there)";
    INFO(said[0]);
    CHECK(said[0].starts_with("kolo: barrier #1, round 0, rank 0: reports the failure of another communicator" +
                              numbers + ": broadcast #1, rank 0: refused its arguments, so the others cannot go on"));
  }
}

TEST_CASE("unwound by the failure of a rank that is not a member here: no rank is named") {
  for (const int p : {3, 4})
    expect(
        p, [](auto& comm) { return error_in_other(comm, false, end, is_unwound); },
        first_and_last(p, "peer failed -1", ""));
}

TEST_CASE("unwound by an exception that nests another communicator's failure: the failed rank is named") {
  expect_blame(
      [](auto& failing, auto other) {
        auto destroyed = std::move(other);
        try {
          kolo::barrier(failing);
        } catch (const kolo::error&) {
          std::throw_with_nested(std::runtime_error{"cannot go on"});
        }
      },
      "peer failed 1");
}

TEST_CASE("unwound by another communicator's failure, caught by another thread: the failed rank is named") {
  expect_blame(
      [](auto& failing, auto other) {
        auto destroyed = std::move(other);
        std::exception_ptr caught;
        std::jthread{[&] {
          try {
            kolo::barrier(failing);
          } catch (...) {
            caught = std::current_exception();
          }
        }}.join();
        kolo::detail::core::rethrow(caught);
      },
      "peer failed 1");
}

TEST_CASE("a rank that keeps another communicator's failure, continues and later throws is itself named") {
  const auto f = [](auto& comm, std::latch& have_other) -> std::string {
    std::optional<kolo::error> kept;
    auto failing = comm.split(0, -comm.rank());
    if (comm.rank() == 2) fail_here(failing);
    try {
      kolo::barrier(failing);
    } catch (const kolo::error& e) {
      kept = e;
    }
    auto other = comm.split(0, 0);
    have_other.arrive_and_wait();  // rank 1 also fails `comm`, and so a rank that is still in the split
    if (comm.rank() == 1) throw std::logic_error{"of its own"};
    return end_of([&] { kolo::barrier(other); });
  };
  for (int k = 0; k < 5; ++k) {
    std::latch have_other{3};
    CHECK(on_threads(3, [&](auto& comm) { return f(comm, have_other); }) == all_but(1, 3, "peer failed 1"));
  }
}

TEST_CASE("a rank that has handled another communicator's failure and later throws is itself named") {
  const auto throws = [](auto& failing, auto other) {
    end_of([&] { kolo::barrier(failing); });
    auto destroyed = std::move(other);
    if (destroyed.rank() == 0) throw std::logic_error{"of its own"};
    end_of([&] { kolo::barrier(destroyed); });
  };
  const auto said = first_and_last(3, "peer failed 0", "peer failed 0");  // the middle rank is rank 0 there
  for (int k = 0; k < 5; ++k)
    expect(
        3, [&](auto& comm) { return error_in_other(comm, true, end, throws); }, said);
}

TEST_CASE("a failure passed on through two communicators still names the failed rank") {
  const auto f = [](auto& comm) -> std::string {
    const int r = comm.rank();
    auto failing = comm.split(0, -r);
    auto between = comm.split(r == 1 || r == 2 ? 0 : 1, r);
    auto other = comm.split(r == 2 ? 1 : 0, r);
    if (r == 3) fail_here(failing);
    if (r == 2) return end_of([&] { is_unwound(failing, std::move(between)); });
    if (r == 1) return end_of([&] { is_unwound(between, std::move(other)); });
    return end_of([&] { kolo::barrier(other); });
  };
  expect(4, f, {"peer failed 2", "peer failed -1", "peer failed 0", "peer failed 2"});
}

TEST_CASE("a rank is killed while the others wait on either of two communicators") {
  constexpr int p = 4;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 dice{seed};
    const auto draw = [&](int below) { return static_cast<int>(dice() % static_cast<unsigned>(below)); };
    const int victim = draw(p);
    std::array<std::array<int, p>, 2> keys;
    std::array<bool, p> begins_with_second;
    for (std::size_t r = 0; r < p; ++r) {
      keys[0][r] = draw(p), keys[1][r] = draw(p);
      begins_with_second[r] = draw(2) == 1;
    }
    const common<std::atomic<int>> have_names;
    const auto killed = on_processes(p, [&](auto& comm) {
      const auto me = static_cast<std::size_t>(comm.rank());
      auto a = comm.split(0, keys[0][me]), b = comm.split(0, keys[1][me]);
      auto &outer = begins_with_second[me] ? b : a, &inner = begins_with_second[me] ? a : b;
      const auto names_in = [&](auto& part) {
        std::array<int, p> names{};
        return kolo::allgather(part, std::array{comm.rank()}, names), names;
      };
      const auto names_in_a = names_in(a), names_in_b = names_in(b);
      const auto& names = begins_with_second[me] ? names_in_b : names_in_a;
      ++*have_names;
      while (comm.rank() == victim && *have_names < p) ::sched_yield();  // others may still be in allgather
      if (comm.rank() == victim) ::kill(::getpid(), SIGKILL);
      try {
        is_unwound(outer, std::move(inner));
        return std::string{"fine"};
      } catch (const kolo::error& e) {
        const int blamed = e.peer() < 0 ? -1 : names[static_cast<std::size_t>(e.peer())];
        return std::string{name(e.code())} + ' ' + std::to_string(blamed);
      }
    });
    INFO("seed " << seed);
    CHECK(killed.said == all_but(victim, p, "peer died " + std::to_string(victim)));
    CHECK(killed.clean);
  }
}
