// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks as threads, their numbers and transports, and a collector of what they find wrong.
#pragma once

#include <kolo/kolo.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "support/message_threads.hpp"
#include "support/sanitized.hpp"

namespace testing {

// Under a sanitizer the time grows with the square of the number of ranks, and more ranks show nothing new.
#ifdef KOLO_SANITIZED
inline constexpr int rank_counts[] = {1, 2, 3, 5, 8};
#else
inline constexpr int rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17};
#endif

/// Up to 8 ranks: all. Else the first, the second, one in the middle and the last.
inline std::vector<int> roots_of(int p) {
  if (p > 8) return {0, 1, p / 2, p - 1};
  std::vector<int> all;
  for (int r = 0; r < p; ++r) all.push_back(r);
  return all;
}

/// 0, 1, p - 1, p, p + 1, and a prime.
inline std::vector<std::size_t> counts_for(int p) {
  const auto n = static_cast<std::size_t>(p);
  std::vector<std::size_t> all{0, 1, n - 1, n, n + 1, 1009};
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Any rank may write; the thread that runs the ranks reads after they have ended.
class complaints {
 public:
  void say(const std::string& sentence) {
    const std::lock_guard lock{mutex_};
    if (++count_ <= 5) text_ += sentence + '\n';
  }
  void expect(bool condition, const std::string& sentence) {
    if (!condition) say(sentence);
  }
  /// The first five sentences and the number of all; empty if there is none.
  std::string text() const { return count_ > 5 ? text_ + "... " + std::to_string(count_) + " in all" : text_; }

 private:
  std::mutex mutex_;
  std::string text_;
  int count_ = 0;
};

/// Compares bytes, so that different zeros and different NaNs are not equal.
inline void expect_bytes(complaints& wrong, const std::string& call, int rank, const void* got, const void* wanted,
                         std::size_t n, std::size_t element_bytes) {
  if (n == 0 || std::memcmp(got, wanted, n * element_bytes) == 0) return;
  const auto* a = static_cast<const unsigned char*>(got);
  const auto* b = static_cast<const unsigned char*>(wanted);
  std::size_t i = 0;
  while (a[i] == b[i]) ++i;
  wrong.say(call + ", rank " + std::to_string(rank) + ": element " + std::to_string(i / element_bytes) + " of " +
            std::to_string(n) + " is wrong (byte " + std::to_string(a[i]) + " instead of " + std::to_string(b[i]) +
            ")");
}

template <class T>
void expect_same(complaints& wrong, const std::string& call, int rank, const std::vector<T>& got,
                 const std::vector<T>& wanted) {
  wrong.expect(got.size() == wanted.size(), call + ": the test itself is wrong");
  expect_bytes(wrong, call, rank, got.data(), wanted.data(), std::min(got.size(), wanted.size()), sizeof(T));
}

/// Slots of the usual size, and so small that short vectors are cut into many pieces.
inline constexpr std::size_t usual_slot = 64 * 1024, small_slot = 128;

inline kolo::threads::options impatient(std::size_t slot_bytes) {
  return {.timeout = std::chrono::seconds{60}, .slot_bytes = slot_bytes};
}

struct over_slots {
  using communicator = kolo::threads::communicator;
  static void run(int p, callable_ref<communicator&> f, std::size_t slot_bytes) {
    kolo::threads::run(p, f, impatient(slot_bytes));
  }
};
template <class T>
struct over_transport {
  using communicator = kolo::communicator<T>;
  static void run(int p, callable_ref<communicator&> f, std::size_t slot_bytes) {
    run_threads_over<T>(p, f, impatient(slot_bytes));
  }
};
using over_messages = over_transport<message_transport>;

/// Runs f(comm, wrong) on p ranks. Returns what they found wrong, or the error thrown; empty if nothing.
template <class Over = over_slots>
std::string on_ranks(int p, callable_ref<typename Over::communicator&, complaints&> f,
                     std::size_t slot_bytes = usual_slot) {
  complaints wrong;
  try {
    const auto body = [&](typename Over::communicator& comm) { f(comm, wrong); };
    Over::run(p, body, slot_bytes);
  } catch (const std::exception& e) {
    wrong.say(e.what());
  }
  const auto text = wrong.text();
  return text.empty() ? text : std::to_string(p) + " ranks, slots of " + std::to_string(slot_bytes) + " bytes: " + text;
}

}  // namespace testing
