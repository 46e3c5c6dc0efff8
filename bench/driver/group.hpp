// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of one implementation: started once, commanded to run bursts, and blocked in between.
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
  std::vector<std::string> command;  ///< RANKS is replaced by their number
  std::vector<std::string> environment{};  ///< NAME=value, in addition to the driver's own
  std::vector<std::string>
      oversubscribed_environment{};  ///< NAME=value, in addition if there are more ranks than cores
};

/// True if there are more ranks than cores.
bool is_oversubscribed(int ranks);
/// The settings for `ranks` ranks, and the command that starts them.
std::string settings_of(const recipe& r, int ranks);

/// A burst's times, one per window: from the common start until the last rank has ended; nanoseconds.
struct burst {
  outcome what = outcome::done;
  std::string sentence{};
  std::vector<double> times{};
};

/// The failure of a group, and its rank.
struct group_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class group {
 public:
  /// Starts the ranks and waits until all have connected.
  group(const recipe& r, int ranks, std::chrono::seconds backoff);
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  ~group();

  const std::string& version() const { return version_; }
  const std::vector<std::string>& offers() const { return offers_; }
  double overhead() const { return overhead_; }  ///< of an empty window, nanoseconds

  /// Throws group_error when a rank dies, is late, or cannot go on.
  burst run(const command& c, std::chrono::seconds backoff);

 private:
  using deadline = std::chrono::steady_clock::time_point;
  struct member {
    int socket = -1;
    int process = -1;  ///< a pidfd, which cannot refer to a reused process id
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
