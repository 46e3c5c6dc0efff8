// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in grow: which newcomers join, which are lost while they join, and which ranks get the error.
// built with others: ranks
#include <kolo/launch/join.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include "laws/grow_laws.hpp"
#include "processes/what_ranks_say.hpp"

using namespace testing;
using namespace std::chrono_literals;

static constexpr auto deadline = 4s;

/// Threads that join, each with how its call ended.
struct arriving {
  std::string meeting;
  std::vector<std::string> words;
  std::vector<std::jthread> threads{};

  arriving(std::string name, int count) : meeting{std::move(name)}, words(static_cast<std::size_t>(count)) {
    for (auto& mine : words)
      threads.emplace_back([this, &mine] {
        mine = end_of([&] {
          auto comm = kolo::threads::join(meeting, {.timeout = 2 * deadline});
          if (const auto wrong = laws::works_after_growing(comm, -1, comm.size()); !wrong.empty())
            throw kolo::error{kolo::errc::mismatch, wrong};
        });
      });
  }
  bool all_end(const std::string& how) {
    for (auto& t : threads) t.join();
    for (const auto& w : words)
      if (w != how) return false;
    return true;
  }
};

static kolo::detail::launch::rendezvous_options as_newcomer(const std::string& meeting) {
  namespace launch = kolo::detail::launch;
  return {.rank = launch::newcomer,
          .size = 0,
          .name = launch::meeting_place<kolo::detail::shm::private_mapping>(meeting),
          .timeout = deadline,
          .terms = launch::terms_of(0, false),
          .is_growing = true};
}

/// A newcomer that connects, and leaves as soon as it is admitted.
static std::jthread who_goes(const std::string& meeting) {
  return std::jthread{[meeting] {
    namespace launch = kolo::detail::launch;
    (void)end_of([&] {
      launch::rendezvous_at(
          as_newcomer(meeting), launch::rendezvous_clock::now(), [](auto) { return launch::admission{}; },
          [](launch::admission a) { return a; });
    });
  }};
}

/// One that connects, greets, and leaves at once.
static void comes_and_goes(const std::string& meeting) {
  namespace launch = kolo::detail::launch;
  const auto me = as_newcomer(meeting);
  const auto hello = launch::greet(me, deadline);
  for (;; std::this_thread::yield())
    if (const auto socket = launch::connect_to(me.name))
      return void(::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL));
}

static bool newcomers_come() {
  for (int again = 0; again < 10; ++again) {
    arriving all{laws::fresh_meeting(), 3};  // two, and one that waits for the next grow
    const auto said = on_threads(2,
                                 [&](auto& comm) {
                                   auto more = comm.grow(all.meeting, {.newcomers = 2});
                                   auto wrong = laws::works_after_growing(more, comm.rank(), 4);
                                   return wrong + laws::works_after_growing(comm, comm.rank(), 2);
                                 },
                                 {.timeout = deadline});
    if (said != all_say(2, "")) return false;
    if (on_threads(1, [&](auto& comm) { return std::to_string(comm.grow(all.meeting).size()); },
                   {.timeout = deadline}) != all_say(1, "2"))
      return false;
    for (auto& t : all.threads) t.join();
    for (const auto& w : all.words)
      if (w != "fine" && !w.starts_with("peer left")) return false;
  }
  return true;
}

/// A connection that sends nothing, made before the newcomer's, gets no reply.
static bool silence_is_not_answered() {
  namespace launch = kolo::detail::launch;
  const auto meeting = laws::fresh_meeting();
  const auto me = as_newcomer(meeting);
  kolo::detail::os::descriptor silent;
  std::optional<arriving> newcomer;
  std::jthread both{[&] {
    while (!(silent = launch::connect_to(me.name))) std::this_thread::yield();
    newcomer.emplace(meeting, 1);
  }};
  const auto said = on_threads(2,
                               [&](auto& comm) {
                                 auto more = comm.grow(meeting);
                                 return laws::works_after_growing(more, comm.rank(), 3);
                               },
                               {.timeout = deadline});
  both.join();
  char word;
  return said == all_say(2, "") && newcomer->all_end("fine") && ::recv(silent.get(), &word, 1, 0) <= 0;
}

static bool too_few_wait_for_the_next_one() {
  arriving one{laws::fresh_meeting(), 1};
  const auto said = on_threads(2,
                               [&](auto& comm) {
                                 const auto first =
                                     end_of([&] { comm.grow(one.meeting, {.timeout = 200ms, .newcomers = 2}); });
                                 auto more = comm.grow(one.meeting);
                                 return first.substr(0, 8) + laws::works_after_growing(more, comm.rank(), 3);
                               },
                               {.timeout = deadline});
  return said == all_say(2, "timeout ") && one.all_end("fine");
}

/// A newcomer that has left is not counted: one is too few. (Unless its end is not noticed before the other one connects.)
static bool who_goes_again_is_not_counted() {
  for (int again = 0; again < 10; ++again) {
    const auto meeting = laws::fresh_meeting();
    std::jthread other{[&] {
      comes_and_goes(meeting);
      for (std::string end; end != "fine";)
        end = end_of([&] { kolo::threads::join(meeting, {.timeout = 2 * deadline}); });
    }};
    const auto said = on_threads(2,
                                 [&](auto& comm) {
                                   const auto first =
                                       words_of([&] { comm.grow(meeting, {.timeout = 200ms, .newcomers = 2}); });
                                   comm.grow(meeting);
                                   return std::string{first.find("only 1 of 2") != std::string::npos ? "too few" : ""};
                                 },
                                 {.timeout = deadline});
    other.join();
    if (said == all_say(2, "too few")) return true;
  }
  return false;
}

static bool who_is_lost_on_the_way_is_named() {
  const auto begun = std::chrono::steady_clock::now();
  const auto meeting = laws::fresh_meeting();
  const auto lost = who_goes(meeting);
  const auto said = on_threads(
      2, [&](auto& comm) { return end_of([&] { comm.grow(meeting); }) + laws::is_whole(comm, comm.rank(), 2); },
      {.timeout = deadline});
  return said == all_say(2, "peer died 2") && std::chrono::steady_clock::now() - begun < deadline;
}

/// The other newcomer gets the error, unless it has not read its admission yet; either way it joins at the next grow.
static bool the_other_newcomer_hears_it() {
  for (int again = 0; again < 10; ++again) {
    const auto meeting = laws::fresh_meeting();
    const auto lost = who_goes(meeting);
    std::string heard;
    std::jthread other{[&] {
      for (std::string end; end != "fine";) {
        end = end_of([&] {
          auto comm = kolo::threads::join(meeting, {.timeout = deadline});
          kolo::barrier(comm);
        });
        if (end != "fine" && !end.starts_with("peer died")) return void(heard = end);
      }
    }};
    const auto said = on_threads(2,
                                 [&](auto& comm) {
                                   const auto first = end_of([&] { comm.grow(meeting, {.newcomers = 2}); });
                                   auto more = comm.grow(meeting);
                                   kolo::barrier(more);
                                   return first.substr(0, 9);
                                 },
                                 {.timeout = deadline});
    other.join();
    if (said != all_say(2, "peer died") || !heard.empty()) return false;
  }
  return true;
}

int main() {
  return newcomers_come() && silence_is_not_answered() && too_few_wait_for_the_next_one() &&
                 who_goes_again_is_not_counted() && who_is_lost_on_the_way_is_named() && the_other_newcomer_hears_it()
             ? 0
             : 1;
}
