// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as processes or threads, each of which returns a string; the test checks the strings.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "processes/children.hpp"
#include "support/callable_ref.hpp"
#include "support/ends.hpp"

namespace testing {

/// Zeroed memory that this process shares with its children.
template <class T>
class common {
 public:
  common() : object_{new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T{}} {}
  common(const common&) = delete;
  common& operator=(const common&) = delete;
  ~common() { ::munmap(object_, sizeof(T)); }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

struct notes {
  char of_rank[17][1024];
  int status, left_over;
};

/// How a call ended, and how the next one ends.
template <class C, class F>
std::string end_and_next(C& comm, F call) {
  const auto first = end_of(call);
  return first + ", then " + end_of([&] { kolo::barrier(comm); });
}

struct launch_result {
  std::vector<std::string> said;  ///< the result of each rank; "nothing" if it did not return
  int status = -1;                ///< of launch
  std::string errors;             ///< the text written to standard error
  bool no_process_left = false;
  bool clean = false;  ///< and no file in /dev/shm
};

inline launch_result on_each_process(int p, callable_ref<kolo::shm::communicator&, std::string&> f,
                                     const kolo::shm::options& o) {
  common<notes> book;
  for (auto& note : book->of_rank) std::strcpy(note, "nothing");
  const auto files = files_in("/dev/shm");
  launch_result result;
  result.errors = with_standard_error([&] {
    book->status = kolo::shm::launch(
        p,
        [&](kolo::shm::communicator& comm) {
          const int rank = comm.rank();
          std::string said;
          f(comm, said);
          std::strncpy(book->of_rank[rank], said.c_str(), sizeof book->of_rank[rank] - 1);
        },
        o);
    book->left_over = ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
    return 0;
  });
  result.errors.erase(0, result.errors.find('\n') + 1);  // the first line is the function's result
  for (int r = 0; r < p; ++r) result.said.push_back(book->of_rank[r]);
  result.status = book->status;
  result.no_process_left = book->left_over == 0;
  result.clean = result.no_process_left && nothing_stays_in_dev_shm(files);
  return result;
}
/// Runs f(comm) -> string on p processes.
template <class F>
launch_result on_processes(int p, F f, const kolo::shm::options& o = {.timeout = std::chrono::seconds{60}}) {
  return on_each_process(
      p, [&](auto& comm, std::string& said) { said = f(comm); }, o);
}

inline std::vector<std::string> on_each_thread(int p, callable_ref<kolo::threads::communicator&, std::string&> f,
                                               const kolo::threads::options& o) {
  std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
  try {
    kolo::threads::run(
        p,
        [&](kolo::threads::communicator& comm) {
          std::string mine;
          f(comm, mine);
          said[static_cast<std::size_t>(comm.rank())] = mine;
        },
        o);
  } catch (const std::exception&) {  // the ranks that threw keep "nothing"
  }
  return said;
}
/// Runs f(comm) -> string on p threads.
template <class F>
std::vector<std::string> on_threads(int p, F f,
                                    const kolo::threads::options& o = {.timeout = std::chrono::seconds{60}}) {
  return on_each_thread(
      p, [&](auto& comm, std::string& said) { said = f(comm); }, o);
}

/// Waits until that process is stopped. A signal to continue that comes before has no effect.
inline void wait_until_stopped(pid_t process) {
  while (!kolo::detail::os::is_stopped({process}) && kolo::detail::os::is_alive({process})) ::sched_yield();
}

/// Whether any rank was late.
inline bool any_is_late(const launch_result& end) {
  for (const std::string& said : end.said)
    if (said.find("late") != std::string::npos) return true;
  return false;
}

inline std::vector<std::string> all_say(int p, const std::string& words) {
  return std::vector<std::string>(static_cast<std::size_t>(p), words);
}
/// `words` from all ranks but one.
inline std::vector<std::string> all_but(int one, int p, const std::string& words,
                                        const std::string& other = "nothing") {
  auto said = all_say(p, words);
  said[static_cast<std::size_t>(one)] = other;
  return said;
}

}  // namespace testing
