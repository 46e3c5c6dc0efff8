// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rendezvous of a PyTorch process group through torch's store, and the barrier that names missing ranks.
#pragma once

#include <kolo/kolo.hpp>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

/// The unit of timeouts in c10d.
using milliseconds = std::chrono::milliseconds;

/// Sets a key of the store, which every process reads, to a text.
inline void write(::c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}
/// Returns the text of a key of the store; waits until it is set, at most for the store's own timeout.
inline std::string read(::c10d::Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}
/// The same, and deletes the key.
inline std::string take(::c10d::Store& store, const std::string& key) {
  auto text = read(store, key);
  store.deleteKey(key);
  return text;
}

/// Identifies the processes that can share memory and detect when another one dies: those with the same kernel, pid
/// namespace and network namespace.
inline std::string this_host() {
  std::string host;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> host;
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    struct stat its {};
    ::stat(space, &its);
    host += '/' + std::to_string(its.st_ino);
  }
  return host;
}

/// Collective over `size` processes of one host, which need only the store in common: returns their communicator. All
/// keys are deleted again, so the store can be used again. Errors, the same on all processes  invalid_argument: they
/// are on several hosts. Else those of `shm::meet`.
inline shm::communicator meet(::c10d::Store& store, int rank, int size, milliseconds timeout) {
  const auto key = [](const char* what, int r) { return std::string{"kolo/"} + what + '/' + std::to_string(r); };
  std::string name = "c10d";
  if (rank > 0) {
    write(store, key("host", rank), this_host());
    name = take(store, key("name", rank));
  } else {
    std::string others;
    for (int r = 1; r < size; ++r)
      if (take(store, key("host", r)) != this_host()) others += ' ' + std::to_string(r);
    std::random_device chance;
    for (int i = 0; i < 4; ++i) name += '.' + std::to_string(chance());
    if (!others.empty()) name = "/" + others;
    for (int r = 1; r < size; ++r) write(store, key("name", r), name);
  }
  if (name.starts_with('/'))
    throw error{
        errc::invalid_argument,
        "the process group kolo reaches the processes of one host, and these ranks are on another than rank 0:" +
            name.substr(1)};
  return shm::meet(rank, size, name, {.timeout = timeout});
}

/// c10d's monitoredBarrier through the store; the group remains usable whatever happens. `number`: 1 for the first of
/// this group. Once all ranks have come to it, it deletes the keys of the previous one. Errors, in c10d's words, which
/// programs look for  c10::Error on rank 0, which names the missing ranks; and on the ranks that wait for rank 0.
class monitored_barrier {
 public:
  monitored_barrier(::c10d::Store& store, int rank, int size, std::uint64_t number)
      : store_{store}, rank_{rank}, size_{size}, keys_{keys_of(number)}, before_{keys_of(number - 1)} {}

  void wait(milliseconds timeout, bool for_all) {
    if (rank_ == 0) return lead(timeout, for_all);
    write(store_, keys_ + std::to_string(rank_), "come");
    bool succeeded = false;
    try {
      succeeded = comes("0", timeout) && read(store_, keys_ + "0") == "go";
    } catch (const std::exception&) {  // the store failed or timed out
    }
    TORCH_CHECK(succeeded, "Rank ", rank_,
                " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
                "Please check rank 0 logs for faulty rank.");
  }

 private:
  void lead(milliseconds timeout, bool for_all) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    std::string missing;
    int count = 0;
    for (int r = 1; r < size_ && (count == 0 || for_all); ++r) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
      if (left <= milliseconds::zero() && count == 0) give_up("Rank 0 timed out in monitoredBarrier after", timeout);
      if (comes(std::to_string(r), std::max(left, milliseconds{1}))) continue;
      missing += (count++ > 0 ? ", " : "") + std::to_string(r);
    }
    if (count > 0) give_up((count > 1 ? "Ranks " : "Rank ") + missing + " failed to pass monitoredBarrier in", timeout);
    forget_the_one_before();
    write(store_, keys_ + "0", "go");
  }
  static std::string keys_of(std::uint64_t number) { return "kolo/barrier/" + std::to_string(number) + '/'; }
  /// No rank reads these keys any more. A store that cannot delete keeps them.
  void forget_the_one_before() {
    try {
      for (int r = 0; r < size_; ++r) store_.deleteKey(before_ + std::to_string(r));
    } catch (const std::exception&) {
    }
  }
  /// Polls: a wait of torch 1.13's TCPStore that times out leaves an answer behind, which the store's next call takes
  /// for its own.
  bool comes(const std::string& key, milliseconds timeout) {
    constexpr std::chrono::microseconds shortest{50}, longest{2000};
    const auto until = std::chrono::steady_clock::now() + timeout;
    for (auto pause = shortest;; pause = std::min(2 * pause, longest)) {
      if (store_.check({keys_ + key})) return true;
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(pause);
    }
  }
  [[noreturn]] void give_up(const std::string& why, milliseconds timeout) {
    write(store_, keys_ + "0", "no");
    TORCH_CHECK(false, "[Rank 0]: ", why, ' ', timeout.count(), " ms");
  }

  ::c10d::Store& store_;
  int rank_, size_;
  std::string keys_, before_;
};

}  // namespace kolo::inline KOLO_ABI::c10d
