// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparisons: within a cell, the bursts of all contestants alternate, so that ratios compare the same moments.
#pragma once

#include "group.hpp"
#include "ping_pong.hpp"
#include "plan.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>

namespace kolo_bench {

/// One burst: its median, and the distance of the cores.
struct sample {
  int round;
  double nanoseconds;
  double ping_pong;
  std::string distance;  ///< near, far; mixed: it changed during the burst
};

/// All bursts of one contestant in one cell.
struct series {
  cell where;
  std::string implementation, algorithm, buffers;
  std::vector<sample> samples{};
};

class measurement {
 public:
  measurement(std::vector<recipe> recipes, plan p, std::function<void(const std::string&)> say);

  /// Measures everything in the plan that an implementation offers.
  void run();

  const std::vector<series>& results() const { return results_; }
  const std::vector<std::string>& sentences() const { return sentences_; }  ///< contestants that were left out, and why
  const std::map<std::string, std::string>& versions() const { return versions_; }
  const std::map<std::string, double>& overheads() const { return overheads_; }
  const std::map<std::string, std::string>& settings() const { return settings_; }  ///< how each group was started
  bool own_failed() const { return own_failed_; }  ///< of kolo or the floor; a peer's failure is only reported

 private:
  struct contestant {
    std::string implementation, algorithm, buffers;
    group* ranks;
    bool out = false;
    int iterations = 0, batch = 1;
    double seconds = 0;  ///< spent so far
    std::vector<sample> samples{};
  };

  group* group_of(const recipe& r, int ranks);
  std::vector<contestant> contestants(const comparison& c);
  void compare(const comparison& c);
  template <class F>
  void attempt(const cell& c, std::vector<contestant>& all, contestant& who, F what);
  void forget(const std::string& key);
  bool is_done(const cell& c, contestant& who, const burst& b);
  bool calibrate(const cell& c, contestant& who);
  bool sample_once(const cell& c, contestant& who, int round);
  void leave_out(const std::string& implementation, const std::string& sentence);

  std::vector<recipe> recipes_;
  plan plan_;
  std::function<void(const std::string&)> say_;
  ping_pong ping_pong_{};
  double last_ping_pong_ = 0;
  std::map<std::string, std::unique_ptr<group>> groups_{};  ///< by name and ranks; null: could not be started
  std::map<std::string, int> failures_{};
  std::set<std::string> found_{};  ///< collectives and algorithms of contestants
  std::vector<series> results_{};
  std::vector<std::string> sentences_{};
  std::map<std::string, std::string> versions_{};
  std::map<std::string, double> overheads_{};
  std::map<std::string, std::string> settings_{};
  bool own_failed_ = false;
};

}  // namespace kolo_bench
