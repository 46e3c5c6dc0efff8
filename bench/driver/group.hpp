// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of one implementation: started once, asked for bursts, and asleep in between.
#pragma once

#include "../protocol.hpp"

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace kolo_bench {

/// How a group is started.
struct recipe {
  std::string name;                  ///< kolo, kolo_threads, mpich, openmpi, gloo, floor, kolo_mpich, kolo_openmpi
  std::vector<std::string> command;  ///< RANKS stands for their number
  std::vector<std::string> environment{};  ///< NAME=value, besides ours
  std::vector<std::string>
      oversubscribed_environment{};  ///< NAME=value, in addition where there are more ranks than cores
};

/// Are there more ranks than cores?
bool is_oversubscribed(int ranks);
/// What is set for so many ranks, and the words by which they are started.
std::string settings_of(const recipe& r, int ranks);

/// A burst's times, per window: from the common start until the last rank was done; nanoseconds.
struct burst {
  outcome what = outcome::done;
  std::string sentence{};
  std::vector<double> times{};
};

/// What is wrong with a group, and which rank of it.
struct group_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class group {
 public:
  /// Starts the ranks and waits until all have come.
  group(const recipe& r, int ranks, std::chrono::seconds backoff);
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  ~group();

  const std::string& version() const { return version_; }
  const std::vector<std::string>& offers() const { return offers_; }
  double overhead() const { return overhead_; }  ///< of measuring nothing, nanoseconds

  /// Throws group_error when a rank dies, is late, or cannot go on.
  burst run(const command& c, std::chrono::seconds backoff);

 private:
  using deadline = std::chrono::steady_clock::time_point;
  struct member {
    int socket = -1;
    int process = -1;  ///< a pidfd, which never means another process
  };

  void start(const recipe& r, const std::string& socket_name);
  void gather_members(int listener, deadline until);
  void measure_overhead(std::chrono::seconds backoff);
  void receive(std::size_t rank, void* to, std::size_t bytes, deadline until);
  [[noreturn]] void give_up(const std::string& sentence);
  void wait_for_exit(std::chrono::seconds backoff);

  std::string name_;
  int ranks_;
  int page_ = -1;
  pid_t child_ = 0;
  std::vector<member> members_;
  std::string version_{};
  std::vector<std::string> offers_{};
  double overhead_ = 0;
};

}  // namespace kolo_bench
