// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// launch in a program with other threads: it ends those that it can end, and refuses others.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <optional>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace testing;

namespace {

using parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

/// The number of threads in a parallel region of GNU OpenMP, called as a compiler would call it.
int threads_of(parallel region) {
  std::atomic<int> n{0};
  region([](void* counter) { ++*static_cast<std::atomic<int>*>(counter); }, &n, 3, 0);
  return n;
}

/// Runs f in a child process, which is killed after 30 seconds.
template <class F>
std::string by_itself(F f) {
  return child{[&]() -> std::string {
           ::alarm(30);
           return f();
         }}
      .result();
}

std::string launched() {
  return words_of([] {
    const int status = kolo::shm::launch(2, [](auto& comm) { kolo::barrier(comm); });
    if (status != 0) throw kolo::error{kolo::errc::system, "status " + std::to_string(status)};
  });
}

std::optional<std::jthread> ended_by_fork;

}  // namespace

TEST_CASE("a program that has used OpenMP launches ranks that use it") {
  if (!::dlopen("libgomp.so.1", RTLD_LAZY)) {
    WARN("skipped: there is no libgomp.so.1");
    return;
  }
  CHECK(by_itself([] {
          const auto region = reinterpret_cast<parallel>(::dlsym(::dlopen("libgomp.so.1", RTLD_LAZY), "GOMP_parallel"));
          const int before = threads_of(region);
          common<std::atomic<int>> in_ranks;
          const int status = kolo::shm::launch(2, [&](auto& comm) {
            *in_ranks += threads_of(region);
            kolo::barrier(comm);
          });
          return std::to_string(before) + ", " + std::to_string(*in_ranks) + " in the ranks, status " +
                 std::to_string(status) + ", " + std::to_string(threads_of(region)) + " afterwards";
        }) == "3, 6 in the ranks, status 0, 3 afterwards");
}

#ifndef KOLO_SANITIZED  // a thread sanitizer has its own threads, which launch allows
TEST_CASE("launch is refused while the program has other threads") {
  CHECK(by_itself([] {
          std::string said;
          {
            const std::jthread other{[](std::stop_token stop) {
              ::pthread_setname_np(::pthread_self(), "clerk");
              while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
            }};
            said = launched();
          }
          for (int i = 0; i < 20 && launched().empty(); ++i)
            kolo::threads::run(3, [](auto& comm) { kolo::barrier(comm); });
          return said + launched();
        }) ==
        "kolo: launch forks, which copies the calling thread only, and the program has 1 more (\"clerk\"), for which a "
        "copy might wait without end: "
        "start threads inside the function that is launched, or let a launcher start the ranks (shm::world)");
}
#endif

TEST_CASE("launch: a library may end its threads in a fork handler") {
  CHECK(by_itself([] {
          ended_by_fork.emplace([](std::stop_token stop) {
            while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
          });
          ::pthread_atfork([] { ended_by_fork.reset(); }, nullptr, nullptr);
          return launched();
        }) == "");
}
